"""psycopg2."""

from collections.abc import Callable
from typing import Any, TypeVar

from sendonce.errors import NotInTransaction
from sendonce.sql import steps
from sendonce.sql.queries import Database, Rows, Statement, Statements, pyformat

T = TypeVar("T")
_IDLE = 0


def run(connection: Any, plan: Callable[[Database], Statements[T]], *, reads: bool = False) -> T:
    from psycopg2.extensions import cursor as plain_cursor

    if not reads and connection.autocommit and connection.get_transaction_status() == _IDLE:
        raise NotInTransaction(
            "this psycopg2 connection is in autocommit mode, outside a transaction; set autocommit = False,"
            ' or execute "begin" first'
        )
    with connection.cursor(cursor_factory=plain_cursor) as cursor:

        def execute(statement: Statement) -> Rows:
            cursor.execute(pyformat(statement.sql), statement.values or None)
            rows: Rows = cursor.fetchall() if cursor.description else []
            return rows

        return steps.run(plan("postgres"), execute)
