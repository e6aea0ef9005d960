"""sqlite3, and aiosqlite, which is sqlite3 in a thread of its own."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sendonce.errors import NotInTransaction
from sendonce.sql import steps
from sendonce.sql.queries import Database, Rows, Statement, Statements

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")


class Transactional(Protocol):
    """How sqlite3 and its async twin say what they do about transactions."""

    @property
    def in_transaction(self) -> bool: ...

    @property
    def isolation_level(self) -> str | None: ...


def missing_begin(connection: Transactional) -> Statement | None:
    """The BEGIN that the module itself would put before a write, if it is still to come.

    Without it our savepoint would be the outermost one, and releasing that commits.
    """
    if connection.in_transaction:
        return None
    if connection.isolation_level is None or getattr(connection, "autocommit", None) is True:
        raise NotInTransaction(
            "this SQLite connection commits every statement by itself (isolation_level=None or"
            ' autocommit=True); execute "begin immediate" first'
        )
    return Statement(f"begin {connection.isolation_level}")


def run(connection: "sqlite3.Connection", plan: Callable[[Database], Statements[T]], *, reads: bool = False) -> T:
    begin = None if reads else missing_begin(connection)
    cursor = connection.cursor()
    cursor.row_factory = None

    def execute(statement: Statement) -> Rows:
        return cursor.execute(statement.sql, statement.values).fetchall()

    if begin:
        execute(begin)
    return steps.run(plan("sqlite"), execute)


async def arun(connection: Any, plan: Callable[[Database], Statements[T]], *, reads: bool = False) -> T:
    begin = None if reads else missing_begin(connection)
    async with connection.cursor() as cursor:
        cursor.row_factory = None

        async def execute(statement: Statement) -> Rows:
            await cursor.execute(statement.sql, statement.values)
            rows: Rows = await cursor.fetchall()
            return rows

        if begin:
            await execute(begin)
        return await steps.arun(plan("sqlite"), execute)
