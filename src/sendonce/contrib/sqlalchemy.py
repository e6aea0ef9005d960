"""For applications on SQLAlchemy: an async engine from a database's address, and transactions that are tried again."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from sendonce.compose import check_url, is_sqlite
from sendonce.errors import ConfigError, StoreBusy

T = TypeVar("T")

BUSY_SECONDS = 30.0
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
# A serialization failure and a deadlock: PostgreSQL has rolled all of it back, and the same work may succeed next time.
_PASSING = {"40001", "40P01"}
_SQLITE_BUSY = 5


def async_engine(url: str, **options: Any) -> AsyncEngine:
    """An engine for the address that sendonce takes: `sqlite:///file` (aiosqlite) or `postgresql://…` (psycopg).

    On SQLite every transaction begins with the right to write, so that none fails in its middle for want of it, and
    foreign keys are checked.
    """
    url = check_url(url)
    if not is_sqlite(url):
        return create_async_engine("postgresql+psycopg://" + url.partition("://")[2], **options)
    engine = create_async_engine(
        "sqlite+aiosqlite://" + url.partition("://")[2], connect_args={"timeout": BUSY_SECONDS}, **options
    )
    event.listen(engine.sync_engine, "connect", _open_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


async def in_transaction(
    engine: AsyncEngine,
    work: Callable[[AsyncConnection], Awaitable[T]],
    *,
    isolation_level: str | None = None,
    tries: int = 20,
) -> T:
    """Do `work` in one transaction and commit it; its result.

    When the database gives up because of others (serialization failure, deadlock, lock), all of it is rolled back and
    done again, up to `tries` times with growing pauses: so `work` must do nothing but use its connection. After that,
    and when the database cannot be reached, it is StoreBusy. Whatever else goes wrong is raised as it is, and nothing
    was written.
    """
    if tries < 1:
        raise ConfigError(f"tries must be at least 1, not {tries}")
    pause, tried = FIRST_PAUSE, 0
    while True:
        try:
            return await _once(engine, work, isolation_level)
        except (DBAPIError, StoreBusy) as error:
            tried += 1
            if not is_passing(error):
                if isinstance(error, OperationalError):
                    # From None: the driver's words name hosts and users.
                    raise StoreBusy("the database cannot be reached, or has gone away; try again") from None
                raise
            if tried == tries:
                raise StoreBusy(f"others were in the way {tries} times; try again") from error
        await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311, so that two that collided do not meet again
        pause = min(pause * 2, LONGEST_PAUSE)


def is_passing(error: DBAPIError | StoreBusy) -> bool:
    """True when the transaction was rolled back because of others, and the same work may succeed next time."""
    if isinstance(error, StoreBusy):
        return True
    code = getattr(error.orig, "sqlite_errorcode", None)
    if isinstance(code, int):
        return code & 0xFF == _SQLITE_BUSY
    return getattr(error.orig, "sqlstate", None) in _PASSING


async def _once(engine: AsyncEngine, work: Callable[[AsyncConnection], Awaitable[T]], isolation_level: str | None) -> T:
    async with engine.connect() as connection:
        if isolation_level is not None and engine.dialect.name != "sqlite":  # which knows no weaker one
            await connection.execution_options(isolation_level=isolation_level)
        async with connection.begin():
            return await work(connection)


def _open_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("pragma foreign_keys = on")
    cursor.close()


def _begin_sqlite(connection: Any) -> None:
    connection.exec_driver_sql("begin immediate")
