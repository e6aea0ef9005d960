"""Somebody's open connection, and the thread that it must be used in."""

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from sendonce.outbox.drivers import names_of

if TYPE_CHECKING:
    import aiosqlite

Answer = TypeVar("Answer")


class Lender(Protocol):
    @property
    def is_closed(self) -> bool: ...

    async def run(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Do `work` on the connection; what it returns or raises."""
        ...


def lender_of(connection: Any) -> Lender | None:
    """What works on this connection; None when it is none that leads to SQLite."""
    names = names_of(connection)
    if ("sqlite3", "Connection") in names:
        return Sqlite3(connection)
    if ("aiosqlite", "Connection") in names:
        return Aiosqlite(connection)
    return None


class Sqlite3:
    """In the caller's thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        try:
            self._connection.in_transaction  # noqa: B018 - asked only whether it can be
        except sqlite3.ProgrammingError:
            return True
        return False

    async def run(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        return work(self._connection)


class Aiosqlite:
    """In the thread of aiosqlite's own."""

    def __init__(self, connection: "aiosqlite.Connection") -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        try:
            self._connection.in_transaction  # noqa: B018 - asked only whether it can be
        except (ValueError, sqlite3.ProgrammingError):
            return True
        return False

    async def run(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        # A row factory is called in that thread, with the cursor of sqlite3's, when the statement is over and reset.
        async with self._connection.cursor() as cursor:
            cursor.row_factory = cast(Any, lambda below, _: work(below.connection))
            await cursor.execute("select 1")
            return cast(Answer, await cursor.fetchone())
