"""What a connection looks like to a type checker: by shape, so that no driver has to be installed for it."""

from typing import Any, Protocol, TypeAlias


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
