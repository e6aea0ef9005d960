"""Which driver a connection belongs to, told by its class's name: nothing is imported to find out."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from sendonce.errors import PublishError
from sendonce.outbox.drivers import aiosqlite, asyncpg, psycopg2, psycopg3, sqlalchemy, sqlite
from sendonce.outbox.statements import Database, Steps

T = TypeVar("T")
Plan: TypeAlias = Callable[[Database], Steps[T]]


class SyncRun(Protocol):
    def __call__(self, connection: Any, plan: Plan[T], *, reads: bool = False) -> T:
        """Carry out the steps in the caller's transaction. `reads`: nothing is written, so none is needed."""
        ...


class AsyncRun(Protocol):
    def __call__(self, connection: Any, plan: Plan[T], *, reads: bool = False) -> Awaitable[T]:
        """The same on an async connection."""
        ...


_SYNC: dict[tuple[str, str], SyncRun] = {
    ("sqlite3", "Connection"): sqlite.run,
    ("psycopg", "Connection"): psycopg3.run,
    ("psycopg2", "connection"): psycopg2.run,
    ("sqlalchemy", "Connection"): sqlalchemy.run,
    ("sqlalchemy", "Session"): sqlalchemy.run,
    ("sqlalchemy", "scoped_session"): sqlalchemy.run,
}
_ASYNC: dict[tuple[str, str], AsyncRun] = {
    ("psycopg", "AsyncConnection"): psycopg3.arun,
    ("asyncpg", "Connection"): asyncpg.arun,
    ("asyncpg", "PoolConnectionProxy"): asyncpg.arun,
    ("aiosqlite", "Connection"): aiosqlite.arun,
    ("sqlalchemy", "AsyncConnection"): sqlalchemy.arun,
    ("sqlalchemy", "AsyncSession"): sqlalchemy.arun,
    ("sqlalchemy", "async_scoped_session"): sqlalchemy.arun,
}
KNOWN = (
    "sqlite3, psycopg, psycopg2, asyncpg, aiosqlite, or a SQLAlchemy Connection, Session, AsyncConnection"
    " or AsyncSession"
)


def sync_driver(connection: object) -> SyncRun:
    """What carries out steps on this connection; PublishError when it is none, or an async one."""
    names = names_of(connection)
    for name in names:
        if name in _SYNC:
            return _SYNC[name]
    if is_async(connection):
        raise PublishError(f"{shown(connection)} is async: say `await outbox.apublish(…)` or another `a…`")
    raise _not_a_connection(connection)


def async_driver(connection: object) -> AsyncRun:
    """What carries out steps on this async connection; PublishError when it is none, or not an async one."""
    names = names_of(connection)
    for name in names:
        if name in _ASYNC:
            return _ASYNC[name]
    if any(name in _SYNC for name in names):
        raise PublishError(f"{shown(connection)} is not async: say `outbox.publish(…)`, without the `a`")
    raise _not_a_connection(connection)


def is_async(connection: object) -> bool:
    """True for a connection whose verbs are awaited."""
    return any(name in _ASYNC for name in names_of(connection))


def names_of(connection: object) -> list[tuple[str, str]]:
    """The package and the name of its class, and of each class that this one extends."""
    return [(each.__module__.partition(".")[0], each.__name__) for each in type(connection).__mro__]


def _not_a_connection(connection: object) -> PublishError:
    return PublishError(f"{shown(connection)} is not a connection that can be recorded on; give an open one of {KNOWN}")


def shown(connection: object) -> str:
    """Its class, with the package that it is of."""
    kind = connection if isinstance(connection, type) else type(connection)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
