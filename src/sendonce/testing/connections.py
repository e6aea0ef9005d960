"""Which database a test's connection leads to, and a store on that very connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any, Protocol

from sendonce.errors import ConfigError
from sendonce.outbox.drivers import KNOWN, is_async, names_of, shown
from sendonce.store.ports import Store
from sendonce.testing.clock import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SQLALCHEMY = {"Connection", "Session", "scoped_session", "AsyncConnection", "AsyncSession", "async_scoped_session"}
_POSTGRES = {"psycopg", "psycopg2", "asyncpg"}


class _Lender(Protocol):
    @property
    def is_closed(self) -> bool: ...


class _Quota(Protocol):
    def cut(self) -> None: ...

    async def rest(self) -> None: ...


@dataclass(slots=True)
class Opened:
    """A store on somebody's connection. What it takes for the time is `now`, which stands still."""

    store: Store
    lane: _Quota
    now: datetime


@asynccontextmanager
async def opened(connection: Any, clock: Clock) -> AsyncIterator[Opened]:
    """The store, with its tables made where they are missing; ConfigError for what the engine cannot run on."""
    driver = await _driver(connection)
    found = await _on_sqlite(driver, clock) or await _on_postgres(driver, clock)
    if found is None:
        raise ConfigError(
            f"{shown(driver)} is not a connection that a test outbox can work on; give an open one of {KNOWN}"
        )
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
        driver = (await bound.get_raw_connection()).driver_connection
        if ("asyncpg", "Connection") in names_of(driver) and not driver.is_in_transaction():
            await bound.exec_driver_sql("select 1")  # begins it on the server; one that we begin would be committed
        return driver
    bound = connection if direct else connection.connection()
    if not bound.in_transaction():
        bound.begin()
    return bound.connection.driver_connection


def _check_open(lender: _Lender) -> None:
    if lender.is_closed:
        raise ConfigError("this connection is closed; give an open one, and use the box while it is open")


async def _on_sqlite(connection: Any, clock: Clock) -> Opened | None:
    from sendonce.store.sqlite.borrowed import BorrowedLane
    from sendonce.store.sqlite.lenders import lender_of
    from sendonce.store.sqlite.store import SqliteStore

    lender = lender_of(connection)
    if lender is None:
        return None
    _check_open(lender)
    lane = BorrowedLane(lender, lambda: (found.now - _EPOCH) // timedelta(microseconds=1))
    found = Opened(SqliteStore(lane, lane), lane, clock.now())
    await lane.prepare()
    return found


async def _on_postgres(connection: Any, clock: Clock) -> Opened | None:
    if all(package not in _POSTGRES for package, _ in names_of(connection)):
        return None
    if find_spec("psycopg") is None:
        raise ConfigError("the engine needs psycopg 3 on PostgreSQL: pip install 'sendonce[postgres]'")
    from sendonce.store.postgres.borrowed import BorrowedLane
    from sendonce.store.postgres.lenders import lender_of
    from sendonce.store.postgres.store import PostgresStore

    lender = lender_of(connection)
    if lender is None:
        return None
    _check_open(lender)
    lane = BorrowedLane(lender, lambda: found.now)
    found = Opened(PostgresStore(lane), lane, clock.now())
    found.now = clock.now(at_least=await lane.server_time())
    await lane.prepare()
    return found
