"""A lane on somebody's open connection: every call is a savepoint in the transaction that is theirs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import cast

import psycopg
from psycopg import errors

from sendonce.errors import ConfigError, StoreBusy, StoreError
from sendonce.store.migrations import available, check_version
from sendonce.store.postgres.lanes import Connection, Lane, translated
from sendonce.store.postgres.lenders.port import Lender, Rows, Values
from sendonce.store.postgres.migrator import PACKAGE, apply_missing, version_on
from sendonce.store.unbroken import unbroken

# What statements ask the server for; inside somebody's transaction its answer would never change.
_CLOCKS = ("clock_timestamp()", "now()")
# How to begin, to undo and to end a call.
_SAVEPOINT = (
    "savepoint sendonce_engine",
    "rollback to savepoint sendonce_engine; release savepoint sendonce_engine",
    "release savepoint sendonce_engine",
)
_TRANSACTION = ("begin", "rollback", "commit")
_DATE_STYLE = "set local datestyle = '{}'"


class BorrowedLane(Lane):
    """Commits nothing, unless the connection is outside a transaction and commits every statement by itself.

    What the statements take for the time is the `clock`'s.
    """

    def __init__(self, lender: Lender, clock: Callable[[], datetime]) -> None:
        super().__init__("")
        self._borrowed = cast(Connection, _Borrowed(lender, clock))
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
            [[now]] = await (await connection.execute("select statement_timestamp()")).fetchall()
            return cast(datetime, now)

    def cut(self) -> None:
        """Let nothing more through: whoever works here is dead."""
        self._is_cut = True

    async def rest(self) -> None:
        """Wait for whoever is at work here, and for those who queue up."""
        async with self._turn:
            return

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Connection]:
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
    """As much of an AsyncConnection as the store uses."""

    def __init__(self, lender: Lender, clock: Callable[[], datetime]) -> None:
        self._lender = lender
        self._clock = clock

    async def execute(self, query: str | bytes, values: Values = None) -> Rows:
        """A statement is told the time; bytes are a script, and left alone."""
        if isinstance(query, bytes):
            await unbroken(self._lender.run(query.decode()))
            return Rows()
        for each in _CLOCKS:
            query = query.replace(each, f"timestamptz '{self._clock().isoformat()}'")
        return await unbroken(self._lender.execute(query, values))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        begin, undo, end = _TRANSACTION if self._lender.commits_by_itself else _SAVEPOINT
        try:
            await unbroken(self._lender.run(begin))
        except errors.InFailedSqlTransaction:
            raise ConfigError(
                "a statement has failed in this connection's transaction; roll it back, or back to a savepoint before"
                " that"
            ) from None
        except asyncio.CancelledError:
            await unbroken(self._lender.run(undo))
            raise
        try:
            async with self._readable_times():
                yield
        except BaseException:
            with suppress(psycopg.Error, OSError):  # where all of it is gone already
                await unbroken(self._lender.run(undo))
            raise
        await unbroken(self._lender.run(end))

    @asynccontextmanager
    async def _readable_times(self) -> AsyncIterator[None]:
        """Have times spelled in the one way that can be read, and then in their owner's again; undone by a failure."""
        theirs = self._lender.date_style
        if theirs.startswith("ISO"):
            yield
            return
        await unbroken(self._lender.run(_DATE_STYLE.format("ISO")))
        yield
        await unbroken(self._lender.run(_DATE_STYLE.format(theirs)))
