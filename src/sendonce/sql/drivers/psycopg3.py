"""psycopg 3, sync and async."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sendonce.errors import NotInTransaction
from sendonce.sql import steps
from sendonce.sql.queries import Database, Rows, Statement, Statements, numbered, pyformat

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
_IDLE = 0


def run(connection: "psycopg.Connection[Any]", plan: Callable[[Database], Statements[T]], *, reads: bool = False) -> T:
    from psycopg.rows import tuple_row

    if not reads:
        _check(connection)
    with connection.cursor(row_factory=tuple_row) as cursor:
        spell = _spelling(cursor)

        def execute(statement: Statement) -> Rows:
            cursor.execute(*spell(statement))
            return cursor.fetchall() if cursor.description else []

        return steps.run(plan("postgres"), execute)


async def arun(
    connection: "psycopg.AsyncConnection[Any]", plan: Callable[[Database], Statements[T]], *, reads: bool = False
) -> T:
    from psycopg.rows import tuple_row

    if not reads:
        _check(connection)
    async with connection.cursor(row_factory=tuple_row) as cursor:
        spell = _spelling(cursor)

        async def execute(statement: Statement) -> Rows:
            await cursor.execute(*spell(statement))
            return await cursor.fetchall() if cursor.description else []

        return await steps.arun(plan("postgres"), execute)


def _check(connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]") -> None:
    if connection.autocommit and connection.info.transaction_status == _IDLE:
        raise NotInTransaction(
            "this psycopg connection is in autocommit mode, outside a transaction; publish within"
            " `with connection.transaction():`"
        )


def _spelling(cursor: object) -> Callable[[Statement], tuple[str, Any]]:
    """The caller's own cursor factory is used, and a raw one wants $1 parameters."""
    if any(each.__name__ == "RawCursorMixin" for each in type(cursor).__mro__):
        return _raw
    return _named


def _named(statement: Statement) -> tuple[str, Any]:
    return pyformat(statement.sql), statement.values or None


def _raw(statement: Statement) -> tuple[str, Sequence[Any] | None]:
    sql, values = numbered(statement)
    return sql, values or None
