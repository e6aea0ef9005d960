"""asyncpg."""

from collections.abc import Callable
from typing import Any, TypeVar

from sendonce.errors import NotInTransaction
from sendonce.sql import steps
from sendonce.sql.queries import Database, Rows, Statement, Statements, numbered

T = TypeVar("T")


async def arun(connection: Any, plan: Callable[[Database], Statements[T]], *, reads: bool = False) -> T:
    if not reads and not connection.is_in_transaction():
        raise NotInTransaction(
            "this asyncpg connection is outside a transaction; publish within `async with connection.transaction():`"
        )

    async def execute(statement: Statement) -> Rows:
        sql, values = numbered(statement)
        rows: Rows = await connection.fetch(sql, *values)
        return rows

    return await steps.arun(plan("postgres"), execute)
