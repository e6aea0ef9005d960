"""Which database a test's connection leads to, and a store on that very connection."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from sendonce.errors import ConfigError
from sendonce.outbox.drivers import names_of
from sendonce.stores.ports import Store
from sendonce.testing.clock import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ASYNC = {
    ("psycopg", "AsyncConnection"),
    ("sqlalchemy", "AsyncConnection"),
    ("sqlalchemy", "AsyncSession"),
    ("sqlalchemy", "async_scoped_session"),
}
_SQLALCHEMY = {"Connection", "Session", "scoped_session", "AsyncConnection", "AsyncSession", "async_scoped_session"}
_USE = "use sqlite3 or psycopg 3, or SQLAlchemy over one of them"
_CLOSED = "this connection is closed; give an open one, and use the box while it is open"


class _Lane(Protocol):
    def cut(self) -> None: ...

    async def rest(self) -> None: ...


@dataclass(slots=True)
class Opened:
    """A store on somebody's connection. What it takes for the time is `now`, which stands still."""

    store: Store
    lane: _Lane
    now: datetime


def is_async(connection: object) -> bool:
    return any(name in _ASYNC for name in names_of(connection))


@asynccontextmanager
async def opened(connection: Any, clock: Clock) -> AsyncIterator[Opened]:
    """The store, with its tables made where they are missing; ConfigError for what the engine cannot run on."""
    driver = await _driver(connection)
    names = names_of(driver)
    if ("sqlite3", "Connection") in names:
        _check_sqlite(driver)
        found = _on_sqlite(driver, clock)
    elif ("psycopg", "Connection") in names or ("psycopg", "AsyncConnection") in names:
        _check_postgres(driver)
        found = await _on_postgres(driver, clock)
    else:
        package = names[0][0]
        raise ConfigError(f"a test outbox cannot work on a connection of {package}; {_USE}")
    yield found


async def _driver(connection: Any) -> Any:
    """The driver's own connection, in the transaction that SQLAlchemy would begin."""
    names = names_of(connection)
    if all(package != "sqlalchemy" for package, _ in names):
        return connection
    if all(name not in _SQLALCHEMY for _, name in names):
        raise ConfigError(f"a SQLAlchemy {names[0][1]} is not a connection; give an open Connection or Session of it")
    from sqlalchemy.exc import InvalidRequestError

    try:
        return await _driver_below(connection)
    except InvalidRequestError as error:
        raise ConfigError(
            f"SQLAlchemy cannot use this connection as it is ({type(error).__name__}); roll it back if a statement has"
            " failed, or give an open one"
        ) from None


async def _driver_below(connection: Any) -> Any:
    direct = hasattr(connection, "exec_driver_sql")
    if is_async(connection):
        bound = connection if direct else await connection.connection()
        if not bound.in_transaction():
            await bound.begin()
        return (await bound.get_raw_connection()).driver_connection
    bound = connection if direct else connection.connection()
    if not bound.in_transaction():
        bound.begin()
    return bound.connection.driver_connection


def _check_sqlite(connection: sqlite3.Connection) -> None:
    try:
        connection.in_transaction  # noqa: B018 - asked only whether it can be
    except sqlite3.ProgrammingError:
        raise ConfigError(_CLOSED) from None


def _check_postgres(connection: Any) -> None:
    from psycopg.pq import TransactionStatus

    if connection.closed:
        raise ConfigError(_CLOSED)
    if connection.info.transaction_status == TransactionStatus.INERROR:
        raise ConfigError(
            "a statement has failed in this connection's transaction; roll it back, or back to a savepoint before that"
        )


def _on_sqlite(connection: sqlite3.Connection, clock: Clock) -> Opened:
    from sendonce.stores.sqlite.borrowed import BorrowedLane
    from sendonce.stores.sqlite.store import SqliteStore

    lane = BorrowedLane(connection, lambda: (found.now - _EPOCH) // timedelta(microseconds=1))
    found = Opened(SqliteStore(lane, lane), lane, clock.now())
    lane.prepare()
    return found


async def _on_postgres(connection: Any, clock: Clock) -> Opened:
    from sendonce.stores.postgres.borrowed import BorrowedLane
    from sendonce.stores.postgres.store import PostgresStore

    lane = BorrowedLane(connection, lambda: found.now)
    found = Opened(PostgresStore(lane), lane, clock.now())
    found.now = clock.now(at_least=await lane.server_time())
    await lane.prepare()
    return found
