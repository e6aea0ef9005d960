"""aiosqlite: sqlite3 in a thread of its own."""

from collections.abc import Callable
from typing import Any, TypeVar

from sendonce.outbox import statements
from sendonce.outbox.drivers.sqlite import missing_begin
from sendonce.outbox.statements import Database, Rows, Statement, Steps

T = TypeVar("T")


async def arun(connection: Any, plan: Callable[[Database], Steps[T]], *, reads: bool = False) -> T:
    begin = None if reads else missing_begin(connection)
    async with connection.cursor() as cursor:
        cursor.row_factory = None

        async def execute(statement: Statement) -> Rows:
            await cursor.execute(statement.sql, statement.values)
            rows: Rows = await cursor.fetchall()
            return rows

        if begin:
            await execute(begin)
        return await statements.arun(plan("sqlite"), execute)
