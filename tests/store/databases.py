"""A database under test: its store, more stores on it, raw connections, and a way to let time pass."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import psycopg

from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.store.ports import Store
from sendonce.store.postgres.store import PostgresStore
from sendonce.store.sqlite.store import SqliteStore

Row: TypeAlias = tuple[Any, ...]
REFUSED = (sqlite3.IntegrityError, psycopg.IntegrityError)
BUSY_SECONDS = 30


class Database(ABC):
    """What the contract needs of both databases, beyond the store itself."""

    def __init__(self) -> None:
        self.stores: list[Store] = []

    async def open(self) -> Store:
        """One more store on the same database, as another process has it."""
        store = await self._connect()
        self.stores.append(store)
        return store

    async def close(self) -> None:
        for store in self.stores:
            await store.close()

    def publish(self, type: str, payload: object, **arguments: Any) -> int:
        """Record and commit one event; its id."""
        with self.connection() as connection:
            return Outbox().publish(connection, type, payload, **arguments).event_id

    def publish_many(self, amount: int) -> None:
        """Record and commit events with one delivery each."""
        with self.connection() as connection:
            drafts = [Draft("memo.created", {"memo": n}, key=f"memo-{n}", to="null:a") for n in range(amount)]
            Outbox().publish_many(connection, drafts)

    def execute(self, sql: str, *values: object) -> list[Row]:
        """Run SQL past the store, committed at once; `?` stands for a value."""
        with self.connection(autocommit=True) as connection:
            cursor = connection.execute(self.spell(sql), values)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def one(self, sql: str, *values: object) -> Any:
        """The only value of the only row."""
        [[value]] = self.execute(sql, *values)
        return value

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Every row of a table with all its columns, by its key."""
        with self.connection(autocommit=True) as connection:
            key = "delivery_id, attempt" if table == "attempts" else "1, 2, 3"
            cursor = connection.execute(f"select * from sendonce_{table} order by {key}")
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    @abstractmethod
    async def _connect(self) -> Store: ...

    @abstractmethod
    @contextmanager
    def connection(self, *, autocommit: bool = False) -> Iterator[Any]:
        """A connection of the caller's own; without autocommit it commits at the end."""

    @abstractmethod
    def spell(self, sql: str) -> str:
        """The SQL with its `?` as the driver wants them."""

    @abstractmethod
    def now(self) -> datetime: ...

    @abstractmethod
    def advance(self, by: timedelta) -> None:
        """Let time pass for everything that is still open."""


class SqliteDatabase(Database):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.offset = timedelta(0)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    async def _connect(self) -> Store:
        return await SqliteStore.connect(self.url, clock=self.microseconds)

    @contextmanager
    def connection(self, *, autocommit: bool = False) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            if not autocommit:
                connection.execute("begin immediate")
            yield connection
            if not autocommit:
                connection.execute("commit")
        finally:
            connection.close()

    def spell(self, sql: str) -> str:
        return sql

    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset

    def microseconds(self) -> int:
        return (self.now() - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    def advance(self, by: timedelta) -> None:
        self.offset += by


class PostgresDatabase(Database):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    async def _connect(self) -> Store:
        return await PostgresStore.connect(self.url)

    @contextmanager
    def connection(self, *, autocommit: bool = False) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.url, autocommit=autocommit) as connection:
            yield connection

    def spell(self, sql: str) -> str:
        return sql.replace("?", "%s")

    def now(self) -> datetime:
        return datetime.now(UTC)

    def advance(self, by: timedelta) -> None:
        """The server's clock cannot be moved, so what is open is moved back instead."""
        self.execute(
            "update sendonce_deliveries set next_attempt_at = next_attempt_at - ?, expires_at = expires_at - ?,"
            " not_before = not_before - ? where status not in ('Completed', 'DeadLettered')",
            by,
            by,
            by,
        )
        self.execute(
            "update sendonce_deliveries set put_off_since = put_off_since - ? where put_off_since is not null", by
        )
        self.execute("update sendonce_messages set next_attempt_at = next_attempt_at - ?", by)
        self.execute("update sendonce_leases set expires_at = expires_at - ?", by)
        for column in ("opened_at", "probe_at", "updated_at"):
            self.execute(f"update sendonce_breakers set {column} = {column} - ?", by)
        self.execute("update sendonce_buckets set refilled_at = refilled_at - ?", by)
        self.execute("update sendonce_subscription_secrets set expires_at = expires_at - ?", by)
        self.execute("update sendonce_audits set due_at = due_at - ?", by)
        self.execute("update sendonce_losses set noticed_at = noticed_at - ?", by)
        self.execute("update sendonce_retention set due_at = due_at - ?, whole_at = whole_at - ?", by, by)
