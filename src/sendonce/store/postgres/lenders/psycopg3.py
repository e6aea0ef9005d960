"""psycopg 3, sync and async: a plain cursor, whatever its owner has chosen, and nothing is prepared."""

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from sendonce.store.postgres.lenders.port import Row, Rows, Values


class Psycopg:
    """See `Lender`."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        return self._connection.closed

    @property
    def commits_by_itself(self) -> bool:
        return _commits_by_itself(self._connection)

    @property
    def date_style(self) -> str:
        return self._connection.info.parameter_status("DateStyle") or ""

    async def execute(self, query: str, values: Values = None) -> Rows:
        cursor = self._execute(query, values)
        return Rows(cursor.description, [] if cursor.description is None else cursor.fetchall())

    async def run(self, script: str) -> None:
        self._execute(script, None)

    def _execute(self, query: str, values: Values) -> psycopg.Cursor[Row]:
        cursor = psycopg.Cursor(self._connection, row_factory=tuple_row)
        return cursor.execute(query.encode(), values, prepare=False)


class AsyncPsycopg:
    """See `Lender`."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        return self._connection.closed

    @property
    def commits_by_itself(self) -> bool:
        return _commits_by_itself(self._connection)

    @property
    def date_style(self) -> str:
        return self._connection.info.parameter_status("DateStyle") or ""

    async def execute(self, query: str, values: Values = None) -> Rows:
        cursor = await self._execute(query, values)
        return Rows(cursor.description, [] if cursor.description is None else await cursor.fetchall())

    async def run(self, script: str) -> None:
        await self._execute(script, None)

    async def _execute(self, query: str, values: Values) -> psycopg.AsyncCursor[Row]:
        cursor = psycopg.AsyncCursor(self._connection, row_factory=tuple_row)
        return await cursor.execute(query.encode(), values, prepare=False)


def _commits_by_itself(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE
