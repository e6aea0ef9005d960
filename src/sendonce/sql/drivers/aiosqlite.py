"""aiosqlite: sqlite3 in a thread of its own."""

from collections.abc import Callable
from typing import Any, TypeVar

from sendonce.sql import steps
from sendonce.sql.drivers.sqlite3 import missing_begin
from sendonce.sql.statements import Database, Rows, Statement, Statements

T = TypeVar("T")


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
