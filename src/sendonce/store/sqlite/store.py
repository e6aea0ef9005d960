"""The SQLite store: every port over two connections, one that writes and one that reads."""

import sqlite3
from collections.abc import Callable
from typing import Self, TypeVar

from sendonce.sql.steps import Steps
from sendonce.store.migrations import available, check_version
from sendonce.store.sqlite import claims
from sendonce.store.sqlite.connection import MEMORY, PACKAGE, Clock, OwnConnection, Transaction, parse_url, system_clock
from sendonce.store.sqlite.doctor import Verifying
from sendonce.store.sqlite.migrate import apply_missing, schema_version
from sendonce.store.sqlite.settle import settle
from sendonce.store.verbs import On, Verbs, acts

Answer = TypeVar("Answer")


class SqliteStore(Verifying, Verbs):
    """All of `sendonce.store.ports.Store`. Reads do not wait for the writer, except in memory."""

    start = acts(On.CLAIMS, claims.start)
    start_waiting = acts(On.CLAIMS, claims.start_waiting)
    start_doubtful = acts(On.CLAIMS, claims.start_doubtful)
    park_unserved = acts(On.CLAIMS, claims.park_unserved)
    settled = staticmethod(settle)
    settle = acts(On.RESULTS, settle)

    def __init__(self, writer: OwnConnection, reader: OwnConnection) -> None:
        self._writer = writer
        self._reader = reader

    @classmethod
    async def connect(cls, url: str, *, inline: bool = False, clock: Clock | None = None) -> Self:
        """Open a database, or say with SchemaMismatch or StoreBusy why it cannot be used.

        `inline` runs everything in the caller's thread; `clock` gives microseconds since 1970. A database in memory
        is made here, has its tables, and is gone when the store is closed.
        """
        path = parse_url(url)
        writer = OwnConnection(path, clock or system_clock, inline=inline)
        if path == MEMORY:
            await writer.run(_make_tables)
            return cls(writer, writer)
        reader = OwnConnection(path, clock or system_clock, inline=inline, read_only=True)
        store = cls(writer, reader)
        try:
            check_version(await schema_version(url), len(available(PACKAGE)))
        except BaseException:
            await store.close()
            raise
        return store

    async def carry_out(self, steps: Steps[Answer], on: On, *, is_atomic: bool, only_reads: bool = False) -> Answer:
        """See Verbs. Everything is one transaction here."""
        lane = self._reader if only_reads or on is On.READING else self._writer
        return await lane.run(Transaction.carry_out, steps)

    async def transact(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Do a caller's own work in a transaction on the writing connection: the way into a database in memory."""
        return await self._writer.run(_with_connection, work)

    async def ready(self) -> None:
        """See LeaseStore."""
        for lane in (self._writer, self._reader):
            await lane.run(_nothing)

    async def close(self) -> None:
        """Finish what is queued, and close both connections."""
        await self._writer.close()
        await self._reader.close()


def _nothing(_: Transaction) -> None:
    """Only to have it open."""


def _make_tables(transaction: Transaction) -> None:
    apply_missing(transaction.connection)


def _with_connection(transaction: Transaction, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
    return work(transaction.connection)
