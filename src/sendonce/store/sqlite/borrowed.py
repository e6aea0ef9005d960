"""A lane on somebody's open connection: every call is a savepoint in the transaction that is theirs."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Concatenate, ParamSpec, TypeVar

from sendonce.domain.tokens import provider_token
from sendonce.errors import NotInTransaction, StoreBusy, StoreError
from sendonce.outbox.drivers.sqlite import missing_begin
from sendonce.store.migrations import available, check_version
from sendonce.store.sqlite.files import translated
from sendonce.store.sqlite.lanes import PACKAGE, QUERIES, Clock, Lane, Transaction
from sendonce.store.sqlite.lenders import Lender
from sendonce.store.sqlite.migrator import apply_missing, version_on
from sendonce.store.unbroken import unbroken

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")


class BorrowedLane(Lane):
    """Runs where the lender does. Commits nothing, unless the connection commits every statement by itself."""

    def __init__(self, lender: Lender, clock: Clock) -> None:
        super().__init__("", clock, inline=True)
        self._lender = lender
        self._turn = asyncio.Lock()

    async def prepare(self) -> None:
        """Make what is missing: the transaction that the connection would begin by itself, the tables, our helpers."""
        await unbroken(self._lender.run(_begin))
        await self.run(_prepare)

    def cut(self) -> None:
        """Let nothing more through: whoever works here is dead."""
        self._is_closed = True

    async def rest(self) -> None:
        """Wait for whoever is at work here, and for those who queue up."""
        async with self._turn:
            return

    async def run(
        self,
        work: Callable[Concatenate[Transaction, Arguments], Answer],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Answer:
        """Do `work` in a savepoint."""

        def in_savepoint(connection: sqlite3.Connection) -> Answer:
            with _unwaited(), translated(), _plain(connection), _savepoint(connection):
                return work(Transaction(connection, self._clock()), *args, **kwargs)

        async with self._turn:
            if self._is_closed:
                raise StoreError("this store is closed")
            return await unbroken(self._lender.run(in_savepoint))


def _begin(connection: sqlite3.Connection) -> None:
    with _unwaited(), translated(), suppress(NotInTransaction):
        begin = missing_begin(connection)
        if begin is not None:
            connection.execute(begin.sql)


def _prepare(transaction: Transaction) -> None:
    connection = transaction.connection
    apply_missing(connection)
    check_version(version_on(connection), len(available(PACKAGE)))
    connection.execute(QUERIES["make_results"])
    connection.create_function("provider_token", 6, provider_token, deterministic=True)


@contextmanager
def _plain(connection: sqlite3.Connection) -> Iterator[None]:
    """The connection as we need it: rows are tuples and texts are str, whatever its owner has chosen."""
    chosen = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = chosen


@contextmanager
def _savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("savepoint sendonce_engine")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # where SQLite itself has rolled everything back
            connection.execute("rollback to savepoint sendonce_engine")
            connection.execute("release savepoint sendonce_engine")
        raise
    connection.execute("release savepoint sendonce_engine")


@contextmanager
def _unwaited() -> Iterator[None]:
    """What a worker would wait for does not pass by itself inside somebody's transaction."""
    try:
        yield
    except StoreBusy as error:
        raise StoreError(str(error)) from None
