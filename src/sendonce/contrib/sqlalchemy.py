"""For applications on SQLAlchemy: an async engine from a database's address, reads, and transactions tried again."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sqlalchemy import URL, event
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from sendonce.compose import check_url, is_sqlite, sqlite_path
from sendonce.errors import CommitUnknown, ConfigError, StoreBusy

T = TypeVar("T")

BUSY_SECONDS = 30.0
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
# A serialization failure and a deadlock: PostgreSQL has rolled all of it back, and the same work may succeed next time.
_PASSING = {"40001", "40P01"}
_SQLITE_BUSY, _SQLITE_LOCKED, _SQLITE_IOERR, _SQLITE_FULL, _SQLITE_CANTOPEN = 5, 6, 10, 13, 14
_SQLITE_AWAY = {_SQLITE_BUSY, _SQLITE_LOCKED, _SQLITE_IOERR, _SQLITE_FULL, _SQLITE_CANTOPEN}
_READS = "sendonce_reads"
# Behind a pooler a statement's name is somebody else's, or not known where the next transaction runs.
_UNPREPARED: dict[str, Any] = {"prepare_threshold": None, "client_encoding": "utf8"}


def async_engine(url: str, **options: Any) -> AsyncEngine:
    """An engine for the address that sendonce takes: `sqlite:///file` (aiosqlite) or `postgresql://…` (psycopg).

    On SQLite every transaction begins with the right to write, so that none fails in its middle for want of it, and
    foreign keys are checked. On PostgreSQL nothing is prepared on the server, so that it works behind a pooler; where
    there is none, `connect_args={"prepare_threshold": 5}` is a little faster. Errors do not show the values of
    statements, unless `hide_parameters` is False.
    """
    url = check_url(url)
    options.setdefault("hide_parameters", True)
    if not is_sqlite(url):
        options["connect_args"] = _UNPREPARED | options.get("connect_args", {})
        return create_async_engine("postgresql+psycopg://" + url.partition("://")[2], **options)
    # Not as a text: %41 in a file's name is no A.
    file = URL.create("sqlite+aiosqlite", database=str(sqlite_path(url).absolute()))
    options["connect_args"] = {"timeout": BUSY_SECONDS} | options.get("connect_args", {})
    engine = create_async_engine(file, **options)
    event.listen(engine.sync_engine, "connect", _open_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


async def ain_transaction(
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
    was written; but for CommitUnknown: the connection was lost while committing.
    """
    if tries < 1:
        raise ConfigError(f"tries must be at least 1, not {tries}")
    pause, tried = FIRST_PAUSE, 0
    while True:
        try:
            async with _connected(engine, isolation_level) as connection:
                return await _committed(connection, work)
        except (DBAPIError, PoolTimeout, StoreBusy) as error:
            tried += 1
            if not is_passing(error):
                _raise_if_away(error)
                raise
            if tried == tries:
                raise StoreBusy(f"others were in the way {tries} times; try again") from error
        await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311, so that two that collided do not meet again
        pause = min(pause * 2, LONGEST_PAUSE)


@asynccontextmanager
async def areading(engine: AsyncEngine, *, isolation_level: str | None = None) -> AsyncIterator[AsyncConnection]:
    """A connection for reads, in one transaction that is rolled back at the end; they wait for no writer.

    StoreBusy when the database cannot answer. Whatever else goes wrong is raised as it is.
    """
    try:
        async with _connected(engine, isolation_level) as connection:
            await connection.execution_options(**{_READS: True})
            yield connection
    except (DBAPIError, PoolTimeout) as error:
        _raise_if_away(error)
        raise


def is_passing(error: SQLAlchemyError | StoreBusy) -> bool:
    """True when the transaction was rolled back because of others, and the same work may succeed next time."""
    if isinstance(error, StoreBusy):
        return True
    code = _sqlite_code(error)
    if code is not None:
        return code == _SQLITE_BUSY
    return getattr(getattr(error, "orig", None), "sqlstate", None) in _PASSING


@asynccontextmanager
async def _connected(engine: AsyncEngine, isolation_level: str | None) -> AsyncIterator[AsyncConnection]:
    if isolation_level not in (None, *LEVELS):
        raise ConfigError(f"isolation_level must be one of {', '.join(LEVELS)}, not {isolation_level!r}")
    async with engine.connect() as connection:
        if isolation_level is not None and engine.dialect.name != "sqlite":  # which knows no weaker one
            await connection.execution_options(isolation_level=isolation_level)
        yield connection


async def _committed(connection: AsyncConnection, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    transaction = await connection.begin()
    result = await work(connection)
    try:
        await transaction.commit()
    except DBAPIError as error:
        code = _sqlite_code(error)
        if code is not None:
            await connection.invalidate()  # SQLite leaves the transaction open
        is_lost = isinstance(error, OperationalError) and code in (None, _SQLITE_IOERR)
        if is_passing(error) or not is_lost:
            raise  # the database has said no: nothing was written
        raise CommitUnknown(
            "the connection was lost while committing: it may have been written; look before you try again"
        ) from None
    return result


def _raise_if_away(error: SQLAlchemyError | StoreBusy) -> None:
    """StoreBusy for what passes by itself: a database that is locked, full, down or out of connections."""
    code = _sqlite_code(error)
    is_away = isinstance(error, OperationalError) if code is None else code in _SQLITE_AWAY
    if is_away or isinstance(error, PoolTimeout):
        # From None: the driver's words name hosts and users.
        raise StoreBusy("the database cannot be reached, or has gone away; try again") from None


def _sqlite_code(error: Exception) -> int | None:
    """SQLite's own, without what extends it; None on another database."""
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def _open_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("pragma foreign_keys = on")
    cursor.close()


def _begin_sqlite(connection: Any) -> None:
    is_reading = connection.get_execution_options().get(_READS, False)
    connection.exec_driver_sql("begin deferred" if is_reading else "begin immediate")
