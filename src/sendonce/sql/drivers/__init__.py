"""The caller's connection: its driver is told by its class's name, so that nothing is imported to find out."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Protocol, TypeAlias, TypeVar

from sendonce.errors import PublishError, SchemaMismatch
from sendonce.sql.drivers import asyncpg, psycopg2, psycopg3, sqlalchemy, sqlite3
from sendonce.sql.queries import Database, Statements

T = TypeVar("T")
Plan: TypeAlias = Callable[[Database], Statements[T]]
_MISSING_STATES = {"42P01", "42703"}


class SyncConnection(Protocol):
    """sqlite3, psycopg, psycopg2, a SQLAlchemy Connection or Session."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


class _AsyncCommitting(Protocol):
    """A psycopg AsyncConnection, a SQLAlchemy AsyncConnection or AsyncSession, aiosqlite."""

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...


class _Asyncpg(Protocol):
    def is_in_transaction(self) -> bool: ...

    def transaction(self) -> Any: ...


AsyncConnection: TypeAlias = _AsyncCommitting | _Asyncpg


class SyncRun(Protocol):
    def __call__(self, connection: Any, plan: Plan[T], *, reads: bool = False) -> T:
        """Carry out the statements in the caller's transaction. `reads`: nothing is written, so none is needed."""
        ...


class AsyncRun(Protocol):
    def __call__(self, connection: Any, plan: Plan[T], *, reads: bool = False) -> Awaitable[T]:
        """Carry out the statements on an async connection."""
        ...


_SYNC: dict[tuple[str, str], SyncRun] = {
    ("sqlite3", "Connection"): sqlite3.run,
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
    ("aiosqlite", "Connection"): sqlite3.arun,
    ("sqlalchemy", "AsyncConnection"): sqlalchemy.arun,
    ("sqlalchemy", "AsyncSession"): sqlalchemy.arun,
    ("sqlalchemy", "async_scoped_session"): sqlalchemy.arun,
}
KNOWN = (
    "sqlite3, psycopg, psycopg2, asyncpg, aiosqlite, or a SQLAlchemy Connection, Session, AsyncConnection"
    " or AsyncSession"
)


def sync_driver(connection: object, *, otherwise: str = "await outbox.apublish(…)` or another `a…") -> SyncRun:
    """Return what carries out statements on this connection; raise PublishError for an async one, or for none.

    `otherwise`: what to say on an async one.
    """
    names = names_of(connection)
    for name in names:
        if name in _SYNC:
            return _SYNC[name]
    if is_async(connection):
        raise PublishError(f"{shown(connection)} is async: say `{otherwise}`")
    raise _not_a_connection(connection)


def async_driver(connection: object, *, otherwise: str = "outbox.publish(…)`, without the `a") -> AsyncRun:
    """Return what carries out statements on this async connection; raise PublishError for any other object.

    `otherwise`: what to say on a sync one.
    """
    names = names_of(connection)
    for name in names:
        if name in _ASYNC:
            return _ASYNC[name]
    if any(name in _SYNC for name in names):
        raise PublishError(f"{shown(connection)} is not async: say `{otherwise}`")
    raise _not_a_connection(connection)


def is_async(connection: object) -> bool:
    """Say whether the connection's verbs are awaited."""
    return any(name in _ASYNC for name in names_of(connection))


def names_of(connection: object) -> list[tuple[str, str]]:
    """Return the package and the name of the connection's class, and of each class that it extends."""
    return [(each.__module__.partition(".")[0], each.__name__) for each in type(connection).__mro__]


def _not_a_connection(connection: object) -> PublishError:
    return PublishError(f"{shown(connection)} is not a connection that can be recorded on; give an open one of {KNOWN}")


def shown(connection: object) -> str:
    """Name the connection's class with its package."""
    kind = connection if isinstance(connection, type) else type(connection)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


class SchemaExpected:
    """Around our statements: when our tables are missing, raise SchemaMismatch, which says what to run.

    All other errors stay the driver's.
    """

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # SQLAlchemy wraps the driver's error and prints the parameters with it.
        cause = getattr(error, "orig", None) or error
        if isinstance(cause, Exception) and _is_missing(cause):
            raise SchemaMismatch(
                "this database lacks sendonce's tables, or has older ones; run: sendonce migrate"
            ) from cause


def _is_missing(error: Exception) -> bool:
    text = str(error)
    if "sendonce_" not in text:
        return False
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return (
        state in _MISSING_STATES or "no such table" in text or "no such column" in text or "has no column named" in text
    )
