"""The transactions that handlers work in: on the consumer's own database, or those that the application gives."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from sendonce.consumer.registry import Consumer
from sendonce.errors import CommitUnknown, ConfigError, StoreBusy
from sendonce.store.urls import is_sqlite, sqlite_path

if TYPE_CHECKING:
    import psycopg

BUSY_SECONDS = 30.0
# Rolled back because of others, out of resources, shutting down, or the connection is gone.
_PASSING_STATES = ("40", "08", "53", "57P", "25006")
_SQLITE_PASSING = {5, 6, 10, 13, 14}
_AWAY = {"OperationalError", "InterfaceError", "ConnectionDoesNotExistError", "ConnectionRefusedError"}


class Transactions(Protocol):
    """Where one slot gets its transactions from: committed at the end of the block, rolled back by an exception."""

    def begin(self) -> AbstractContextManager[Any]:
        """Begin one for a handler that is a plain function, in the thread that it is called in."""
        ...

    def abegin(self) -> AbstractAsyncContextManager[Any]:
        """Begin one for a handler that is awaited."""
        ...

    async def close(self) -> None: ...


def is_passing(error: BaseException) -> bool:
    """Say whether a database gave up for reasons that pass, so that the same transaction may succeed the next time."""
    if isinstance(error, StoreBusy | CommitUnknown | ConnectionError):
        return True
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE_PASSING
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    if state is not None:
        return str(state).startswith(_PASSING_STATES)
    package = type(cause).__module__.partition(".")[0]
    return package in ("psycopg", "psycopg2", "asyncpg") and type(cause).__name__ in _AWAY


class SqliteTransactions:
    """sqlite3 on a connection of the slot's own; every transaction begins with the right to write."""

    def __init__(self, url: str) -> None:
        self._path = str(sqlite_path(url))
        self._connection: sqlite3.Connection | None = None
        # Not the loop's own threads: whoever waits there for the one writer keeps it from ending.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sendonce-consumer")

    @contextmanager
    def begin(self) -> Iterator[sqlite3.Connection]:
        connection = self._begun()
        try:
            yield connection
        except BaseException:
            self._undo(connection)
            raise
        self._commit(connection)

    @asynccontextmanager
    async def abegin(self) -> AsyncIterator[sqlite3.Connection]:
        loop = asyncio.get_running_loop()
        connection = await loop.run_in_executor(self._thread, self._begun)
        try:
            yield connection
        except BaseException:
            self._undo(connection)
            raise
        await loop.run_in_executor(self._thread, self._commit, connection)

    async def close(self) -> None:
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _begun(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(
                self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("pragma foreign_keys = on")
            self._connection.execute("pragma synchronous = full")
        self._connection.execute("begin immediate")
        return self._connection

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("commit")
        except sqlite3.Error:
            self._undo(connection)
            raise

    def _undo(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("rollback")
        except sqlite3.Error:
            connection.close()
            self._connection = None


class PostgresTransactions:
    """psycopg 3 on a connection of the slot's own, at the server's default isolation; opened again when it is lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sync: psycopg.Connection[Any] | None = None
        self._async: psycopg.AsyncConnection[Any] | None = None

    @contextmanager
    def begin(self) -> "Iterator[psycopg.Connection[Any]]":
        import psycopg

        if self._sync is None or self._sync.closed:
            self._sync = psycopg.Connection.connect(self._url, **_OPTIONS)
        with self._sync.transaction():
            yield self._sync

    @asynccontextmanager
    async def abegin(self) -> "AsyncIterator[psycopg.AsyncConnection[Any]]":
        import psycopg

        if self._async is None or self._async.closed:
            self._async = await psycopg.AsyncConnection.connect(self._url, **_OPTIONS)
        async with self._async.transaction():
            yield self._async

    async def close(self) -> None:
        if self._sync is not None:
            self._sync.close()
        if self._async is not None:
            await self._async.close()


_OPTIONS: dict[str, Any] = {
    "autocommit": True,
    "connect_timeout": 10,
    "application_name": "sendonce consume",
    "prepare_threshold": None,
    "client_encoding": "UTF8",
}


class GivenTransactions:
    """Those of the application: `begin` gives a context manager of a transaction, as `sessionmaker(...).begin` does."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin

    def begin(self) -> AbstractContextManager[Any]:
        made = self._begin()
        if not hasattr(made, "__enter__"):
            raise ConfigError("the consumer's transactions are async: write its handler as `async def`")
        found: AbstractContextManager[Any] = made
        return found

    @asynccontextmanager
    async def abegin(self) -> AsyncIterator[Any]:
        made = self._begin()
        if hasattr(made, "__aenter__"):
            async with made as connection:
                yield connection
        else:
            with made as connection:
                yield connection

    async def close(self) -> None:
        """They are the application's."""


def slots_on(url: str, consumer: Consumer) -> int:
    """Return how many handlers work at once: on SQLite one, which has one writer."""
    return 1 if consumer.begin is None and is_sqlite(url) else consumer.concurrency


def transactions_on(url: str, given: Callable[[], Any] | None) -> Transactions:
    """Return what one slot begins its transactions with."""
    if given is not None:
        return GivenTransactions(given)
    return SqliteTransactions(url) if is_sqlite(url) else PostgresTransactions(url)
