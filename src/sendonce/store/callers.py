"""A store on the caller's connection: whatever can record can carry out every verb, in the caller's own transaction.

On a sync connection no verb ever suspends, so that `run_sync` carries it out without an event loop.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from importlib.util import find_spec
from typing import Any, Protocol, TypeAlias, TypeVar

from sendonce.errors import ConfigError
from sendonce.sql.drivers import KNOWN, is_async, names_of, shown
from sendonce.store.ports import Store

_SQLALCHEMY = {"Connection", "Session", "scoped_session", "AsyncConnection", "AsyncSession", "async_scoped_session"}
_POSTGRES = {"psycopg", "psycopg2", "asyncpg"}
Clock: TypeAlias = Callable[[], datetime]
Names: TypeAlias = Iterable[tuple[str, str]]


class CallersConnection(Protocol):
    """The caller's connection with the `store` on it."""

    @property
    def store(self) -> Store: ...

    async def check(self) -> None:
        """Raise SchemaMismatch unless the tables are there and of this version."""
        ...

    async def make_tables(self) -> None:
        """Make the tables that are missing, in the caller's transaction."""
        ...

    async def server_time(self) -> datetime:
        """What the database's own clock says."""
        ...

    def cut(self) -> None:
        """Refuse every verb from now on."""
        ...

    async def rest(self) -> None:
        """Wait for whoever is at work here, and for those who queue up."""
        ...


class _Driver(Protocol):
    @property
    def is_closed(self) -> bool: ...


Found = TypeVar("Found", bound=_Driver)


async def store_on(connection: Any) -> Store:
    """Return a store whose verbs run in the transaction that this connection is in, each in a savepoint of its own.

    Nothing is committed, unless the connection commits every statement by itself. A verb that needs a connection or
    transactions of its own is refused. ConfigError for what is no open connection, SchemaMismatch for one without our
    tables.
    """
    callers = await on(connection)
    await callers.check()
    return callers.store


async def on(connection: Any, *, clock: Clock | None = None) -> CallersConnection:
    """The same, not checked yet. `clock` gives the time that verbs take instead of the database's."""
    driver = await _driver(connection)
    names = set(names_of(driver))
    if _is_sqlite(names):
        from sendonce.store.sqlite import callers as sqlite

        sqlite_find = _finder(connection, sqlite.driver_of)
        await sqlite_find()
        return sqlite.CallersConnection(sqlite_find, clock)
    if any(package in _POSTGRES for package, _ in names):
        if find_spec("psycopg") is None:
            raise ConfigError("sendonce needs psycopg 3 on this connection: pip install 'sendonce[postgres]'")
        from sendonce.store.postgres import callers as postgres

        postgres_find = _finder(connection, postgres.driver_of)
        await postgres_find()
        return postgres.CallersConnection(postgres_find, clock)
    raise _refused(driver)


def _is_sqlite(names: Names) -> bool:
    return not {("sqlite3", "Connection"), ("aiosqlite", "Connection")}.isdisjoint(names)


def _finder(connection: Any, driver_of: Callable[[Any, Names], Found | None]) -> Any:
    """Return what finds the driver of the connection as it is then."""

    async def find() -> Found:
        driver = await _driver(connection)
        found = driver_of(driver, names_of(driver))
        if found is None:
            raise _refused(driver)
        if found.is_closed:
            raise ConfigError("this connection is closed; give an open one, and use it while it is open")
        return found

    return find


def _refused(driver: Any) -> ConfigError:
    return ConfigError(f"{shown(driver)} is not a connection that sendonce can work on; give an open one of {KNOWN}")


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
