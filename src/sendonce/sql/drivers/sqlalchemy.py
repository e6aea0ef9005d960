"""SQLAlchemy: a Connection or a Session, and their async twins, on any driver that we know."""

from collections.abc import Callable
from typing import Any, TypeVar

from sendonce.errors import NotInTransaction, PublishError
from sendonce.sql import steps
from sendonce.sql.drivers.sqlite3 import missing_begin
from sendonce.sql.queries import Database, Rows, Statement, Statements, numbered, pyformat

T = TypeVar("T")


def run(connection: Any, plan: Callable[[Database], Statements[T]], *, reads: bool = False) -> T:
    bound = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
    database = _database(bound)
    spell = _SPELLINGS["named" if database == "sqlite" else bound.dialect.paramstyle]

    def execute(statement: Statement) -> Rows:
        try:
            result = bound.exec_driver_sql(*spell(statement))
        except Exception as error:
            # The parameters hold the payload, which belongs in no error text.
            if hasattr(error, "hide_parameters"):
                error.hide_parameters = True
            raise
        rows: Rows = result.fetchall() if result.returns_rows else []
        return rows

    if not reads:
        if not bound.in_transaction():
            bound.begin()
        _check(bound, database, execute)
    return steps.run(plan(database), execute)


async def arun(connection: Any, plan: Callable[[Database], Statements[T]], *, reads: bool = False) -> T:
    bound = connection if hasattr(connection, "exec_driver_sql") else await connection.connection()
    result: T = await bound.run_sync(run, plan, reads=reads)
    return result


def _database(bound: Any) -> Database:
    if bound.dialect.name == "sqlite":
        return "sqlite"
    if bound.dialect.name == "postgresql" and bound.dialect.paramstyle in _SPELLINGS:
        return "postgres"
    raise PublishError(
        f"{bound.dialect.name} through {bound.dialect.driver} cannot be recorded on; use PostgreSQL (psycopg,"
        " psycopg2, asyncpg) or SQLite (pysqlite, aiosqlite)"
    )


def _check(bound: Any, database: Database, execute: Callable[[Statement], Rows]) -> None:
    """Refuse what commits by itself, whoever switched that on: the engine, an option or the driver."""
    if database == "sqlite":
        if begin := missing_begin(bound.connection.driver_connection):
            execute(begin)
    elif bound.connection.dbapi_connection.autocommit:
        raise NotInTransaction("this SQLAlchemy connection's isolation level is AUTOCOMMIT; publish on one without it")


_SPELLINGS: dict[str, Callable[[Statement], tuple[str, Any]]] = {
    "named": lambda statement: (statement.sql, dict(statement.values) or None),
    "pyformat": lambda statement: (pyformat(statement.sql), dict(statement.values) or None),
    "numeric_dollar": lambda statement: (numbered(statement)[0], tuple(numbered(statement)[1]) or None),
}
