"""A lane on somebody's open connection: every call is a savepoint in the transaction that is theirs."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Concatenate, ParamSpec, TypeVar

from sendonce.domain.tokens import provider_token
from sendonce.errors import NotInTransaction, StoreBusy, StoreError
from sendonce.outbox.drivers.sqlite import missing_begin
from sendonce.stores.migrations import available, check_version
from sendonce.stores.sqlite.files import translated
from sendonce.stores.sqlite.lanes import PACKAGE, QUERIES, Clock, Lane, Transaction
from sendonce.stores.sqlite.migrator import apply_missing, version_on

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")


class BorrowedLane(Lane):
    """Runs in the caller's thread. Commits nothing, unless the connection commits every statement by itself."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        super().__init__("", clock, inline=True)
        self._borrowed = connection

    def prepare(self) -> None:
        """Make what is missing: the transaction that the connection would begin by itself, the tables, our helpers."""
        with translated(), suppress(NotInTransaction):
            begin = missing_begin(self._borrowed)
            if begin is not None:
                self._borrowed.execute(begin.sql)
        self._transact(_prepare)

    def cut(self) -> None:
        """Let nothing more through: whoever works here is dead."""
        self._is_closed = True

    async def rest(self) -> None:
        """Nobody is at work here: each call is over when it returns."""

    def _transact(
        self,
        work: Callable[Concatenate[Transaction, Arguments], Answer],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Answer:
        with _unwaited(), translated(), _plain(self._borrowed) as connection:
            connection.execute("savepoint sendonce_engine")
            try:
                answer = work(Transaction(connection, self._clock()), *args, **kwargs)
            except BaseException:
                with suppress(sqlite3.Error):  # where SQLite itself has rolled everything back
                    connection.execute("rollback to savepoint sendonce_engine")
                    connection.execute("release savepoint sendonce_engine")
                raise
            connection.execute("release savepoint sendonce_engine")
            return answer


def _prepare(transaction: Transaction) -> None:
    connection = transaction.connection
    apply_missing(connection)
    check_version(version_on(connection), len(available(PACKAGE)))
    connection.execute(QUERIES["make_results"])
    connection.create_function("provider_token", 6, provider_token, deterministic=True)


@contextmanager
def _plain(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """The connection as we need it: rows are tuples and texts are str, whatever its owner has chosen."""
    chosen = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield connection
    finally:
        connection.row_factory, connection.text_factory = chosen


@contextmanager
def _unwaited() -> Iterator[None]:
    """What a worker would wait for does not pass by itself inside somebody's transaction."""
    try:
        yield
    except StoreBusy as error:
        raise StoreError(str(error)) from None
