"""A SQLite store on the caller's connection: every verb is a savepoint in the transaction that is the caller's."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeVar, cast

from sendonce.errors import NotInTransaction, StoreBusy, StoreError
from sendonce.sql.drivers.sqlite3 import missing_begin
from sendonce.sql.shielded import shielded
from sendonce.store.migrations import available, check_version
from sendonce.store.sqlite.connection import (
    PACKAGE,
    QUERIES,
    OwnConnection,
    Transaction,
    add_functions,
    stamp,
    system_clock,
    translated,
)
from sendonce.store.sqlite.migrate import apply_missing, version_on
from sendonce.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    import aiosqlite

T = TypeVar("T")
Arguments = ParamSpec("Arguments")


class Driver(Protocol):
    """Works on somebody's open connection, in the thread that it must be used in."""

    is_async: ClassVar[bool]

    @property
    def is_closed(self) -> bool: ...

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` on the connection; what it returns or raises."""
        ...


def driver_of(connection: Any, names: Iterable[tuple[str, str]]) -> Driver | None:
    """Return what works on a connection of a class with these names; None when it is not SQLite's."""
    for name in names:
        if name in _DRIVERS:
            return _DRIVERS[name](connection)
    return None


class CallersConnection:
    """The caller's connection in place of a store's own two.

    It commits nothing, unless the connection commits every statement by itself. `find` returns the driver anew for each
    verb: a session has another connection after each commit. `clock` gives the time instead of the machine's.
    """

    def __init__(self, find: Callable[[], Awaitable[Driver]], clock: Callable[[], datetime] | None) -> None:
        self._find = find
        self._now = system_clock if clock is None else lambda: stamp(clock())
        self._turn = asyncio.Lock()
        self._is_cut = False
        self.store = SqliteStore(_CallersWriter(self, writes=True), _CallersWriter(self, writes=False))
        self.store.is_callers = True

    async def check(self) -> None:
        """Raise SchemaMismatch unless the tables are there and of this version."""
        await self.run(_check, writes=False)

    async def make_tables(self) -> None:
        """Make the tables that are missing, in the caller's transaction."""
        await self.run(_make_tables, writes=True)

    async def server_time(self) -> datetime:
        """What the machine's own clock says."""
        return datetime.now(UTC)

    def cut(self) -> None:
        """Refuse every verb from now on."""
        self._is_cut = True

    async def rest(self) -> None:
        """Wait for whoever is at work here, and for those who queue up."""
        async with self._turn:
            return

    async def run(self, work: Callable[[Transaction], T], *, writes: bool) -> T:
        """Do `work` in a savepoint, and begin the transaction that the driver would begin before it `writes`."""

        def in_savepoint(connection: sqlite3.Connection) -> T:
            with _unwaited(), translated():
                if writes:
                    _begin(connection)
                with suppress(sqlite3.OperationalError):  # they are there already, and a cursor of the caller's is open
                    add_functions(connection)
                with _plain(connection), _savepoint(connection):
                    if writes:  # undone with the caller's transaction
                        connection.execute(QUERIES["make_results"])
                    return work(Transaction(connection, self._now()))

        async with self._turn:
            if self._is_cut:
                raise StoreError("this store is closed")
            driver = await self._find()
            done = driver.run(in_savepoint)
            return await (shielded(done) if driver.is_async else done)


class _CallersWriter(OwnConnection):
    def __init__(self, connection: CallersConnection, *, writes: bool) -> None:
        super().__init__("", system_clock, inline=True)
        self._callers = connection
        self._writes = writes

    async def run(
        self,
        work: Callable[Concatenate[Transaction, Arguments], T],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> T:
        """Do `work` in a savepoint."""
        return await self._callers.run(lambda transaction: work(transaction, *args, **kwargs), writes=self._writes)


class Sqlite3:
    """sqlite3, in the caller's thread."""

    is_async: ClassVar[bool] = False

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        return _is_closed(self._connection)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return work(self._connection)


class Aiosqlite:
    """aiosqlite, in its own thread."""

    is_async: ClassVar[bool] = True

    def __init__(self, connection: "aiosqlite.Connection") -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        return _is_closed(self._connection)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # A row factory is called in that thread, with the cursor of sqlite3's, when the statement is over and reset.
        async with self._connection.cursor() as cursor:
            cursor.row_factory = cast(Any, lambda below, _: work(below.connection))
            await cursor.execute("select 1")
            return cast(T, await cursor.fetchone())


_DRIVERS: dict[tuple[str, str], Callable[[Any], Driver]] = {
    ("sqlite3", "Connection"): Sqlite3,
    ("aiosqlite", "Connection"): Aiosqlite,
}


def _is_closed(connection: "sqlite3.Connection | aiosqlite.Connection") -> bool:
    try:
        connection.in_transaction  # noqa: B018 - asked only whether it can be
    except (ValueError, sqlite3.ProgrammingError):
        return True
    return False


def _check(transaction: Transaction) -> None:
    check_version(version_on(transaction.connection), len(available(PACKAGE)))


def _make_tables(transaction: Transaction) -> None:
    apply_missing(transaction.connection)
    _check(transaction)


def _begin(connection: sqlite3.Connection) -> None:
    with suppress(NotInTransaction):
        begin = missing_begin(connection)
        if begin is not None:
            connection.execute(begin.sql)


@contextmanager
def _plain(connection: sqlite3.Connection) -> Iterator[None]:
    """The connection as we need it: rows are tuples and texts are str, whatever its owner has chosen."""
    chosen = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = chosen


@contextmanager
def _savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("savepoint sendonce_engine")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # where SQLite itself has rolled everything back
            connection.execute("rollback to savepoint sendonce_engine")
            connection.execute("release savepoint sendonce_engine")
        raise
    connection.execute("release savepoint sendonce_engine")


@contextmanager
def _unwaited() -> Iterator[None]:
    """What a worker would wait for does not pass by itself inside somebody's transaction."""
    try:
        yield
    except StoreBusy as error:
        raise StoreError(str(error)) from None
