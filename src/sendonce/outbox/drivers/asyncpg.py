"""asyncpg."""

from collections.abc import Callable
from typing import Any, TypeVar

from sendonce.errors import NotInTransaction
from sendonce.outbox import statements
from sendonce.outbox.statements import Database, Rows, Statement, Steps, numbered

T = TypeVar("T")


async def arun(connection: Any, plan: Callable[[Database], Steps[T]], *, reads: bool = False) -> T:
    if not reads and not connection.is_in_transaction():
        raise NotInTransaction(
            "this asyncpg connection is outside a transaction; publish within `async with connection.transaction():`"
        )

    async def execute(statement: Statement) -> Rows:
        sql, values = numbered(statement)
        rows: Rows = await connection.fetch(sql, *values)
        return rows

    return await statements.arun(plan("postgres"), execute)
