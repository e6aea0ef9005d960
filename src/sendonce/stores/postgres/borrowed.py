"""A lane on somebody's open connection: every call is a savepoint in the transaction that is theirs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeAlias, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from sendonce.errors import StoreBusy, StoreError
from sendonce.stores.migrations import available, check_version
from sendonce.stores.postgres.lanes import Connection, Lane, Row, translated
from sendonce.stores.postgres.migrator import PACKAGE, apply_missing, version_on

Theirs: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
# What statements ask the server for; inside somebody's transaction its answer would never change.
_CLOCKS = ("clock_timestamp()", "now()")


class BorrowedLane(Lane):
    """Commits nothing, unless the connection is outside a transaction and commits every statement by itself.

    What the statements take for the time is the `clock`'s.
    """

    def __init__(self, connection: Theirs, clock: Callable[[], datetime]) -> None:
        super().__init__("")
        self._borrowed = cast(Connection, _Borrowed(connection, clock))
        self._is_cut = False

    async def prepare(self) -> None:
        """Make the tables that are missing."""
        async with self.transaction() as connection:
            found, wanted = await version_on(connection), len(available(PACKAGE))
            if found < wanted:
                [[path]] = await (await connection.execute("select current_setting('search_path')")).fetchall()
                await apply_missing(connection)
                await connection.execute("select set_config('search_path', %s, true)", (path,))
            else:
                check_version(found, wanted)

    async def server_time(self) -> datetime:
        """What the server's own clock says."""
        async with self.connection() as connection:
            [[now]] = await (await connection.execute(b"select clock_timestamp()")).fetchall()
            return cast(datetime, now)

    def cut(self) -> None:
        """Let nothing more through: whoever works here is dead."""
        self._is_cut = True

    async def rest(self) -> None:
        """Wait for whoever is at work here, and for those who queue up."""
        async with self._turn:
            return

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """The connection for one call, in a savepoint. What a worker would wait for does not pass by itself here."""
        try:
            async with self._turn, translated():
                if self._is_cut:
                    raise StoreError("this store is closed")
                async with self._borrowed.transaction():
                    yield self._borrowed
        except StoreBusy as error:
            raise StoreError(str(error)) from None


class _Borrowed:
    """As much of an AsyncConnection as the store uses, over a connection of either kind."""

    def __init__(self, connection: Theirs, clock: Callable[[], datetime]) -> None:
        self._connection = connection
        self._clock = clock

    async def execute(self, query: str | bytes, values: Any = None) -> "psycopg.AsyncCursor[Row] | _Rows":
        """Run it on a plain cursor, whatever its owner has chosen; text is told the time, bytes are left alone."""
        if isinstance(query, str):
            for each in _CLOCKS:
                query = query.replace(each, f"timestamptz '{self._clock().isoformat()}'")
            query = query.encode()
        if isinstance(self._connection, psycopg.AsyncConnection):
            cursor = psycopg.AsyncCursor(self._connection, row_factory=tuple_row)
            return await cursor.execute(query, values, prepare=False)
        return _Rows(psycopg.Cursor(self._connection, row_factory=tuple_row).execute(query, values, prepare=False))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        if not self._connection.autocommit and self._connection.info.transaction_status == TransactionStatus.IDLE:
            await self.execute(b"select 1")  # begins the owner's transaction; one that we begin would be committed
        if isinstance(self._connection, psycopg.AsyncConnection):
            async with self._connection.transaction():
                yield
        else:
            with self._connection.transaction():
                yield


class _Rows:
    """A cursor's answer, for those who await it."""

    def __init__(self, cursor: psycopg.Cursor[Row]) -> None:
        self._cursor = cursor
        self.description = cursor.description

    async def fetchall(self) -> list[Row]:
        return self._cursor.fetchall()

    async def fetchone(self) -> Row | None:
        return self._cursor.fetchone()
