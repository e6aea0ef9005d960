"""The databases that the model runs on: SQLite in memory with a clock of its own, and PostgreSQL."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

import psycopg

from sendonce.outbox.outbox import Outbox
from sendonce.store.ports import Store
from sendonce.store.sqlite.store import SqliteStore
from tests.store.databases import PostgresDatabase

Answer = TypeVar("Answer")
TABLES = (
    "sendonce_events, sendonce_contents, sendonce_deliveries, sendonce_attempts, sendonce_leases, sendonce_stops,"
    " sendonce_dead_letters, sendonce_findings, sendonce_operations, sendonce_counters,"
    " sendonce_subscription_types, sendonce_subscription_secrets, sendonce_subscriptions"
)


class ModelDatabase(Protocol):
    store: Store

    def run(self, call: Coroutine[Any, Any, Answer]) -> Answer: ...

    def publish(self, type: str, payload: object, **arguments: Any) -> int: ...

    def rows(self, table: str) -> list[dict[str, Any]]: ...

    def now(self) -> datetime: ...

    def advance(self, by: timedelta) -> None: ...

    def close(self) -> None: ...


class MemoryDatabase:
    """Time stands still but for `advance`, so that every run is the same."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._now = datetime(2030, 1, 1, tzinfo=UTC)
        self._sqlite = self.run(SqliteStore.connect("sqlite://", inline=True, clock=self._microseconds))
        self.store: Store = self._sqlite

    def run(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        return self._runner.run(call)

    def publish(self, type: str, payload: object, **arguments: Any) -> int:
        arguments.setdefault("deliver_at", self._now)
        return self.run(self._sqlite.transact(lambda own: Outbox().publish(own, type, payload, **arguments).event_id))

    def rows(self, table: str) -> list[dict[str, Any]]:
        def read(own: Any) -> list[dict[str, Any]]:
            cursor = own.execute(f"select * from sendonce_{table} order by 1, 2, 3")
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

        return self.run(self._sqlite.transact(read))

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> None:
        self._now += by

    def close(self) -> None:
        self.run(self.store.close())
        self._runner.close()

    def _microseconds(self) -> int:
        return (self._now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class ServerDatabase(PostgresDatabase):
    """An emptied PostgreSQL database; the model's clock runs ahead of the server's by what has been advanced."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._ahead = timedelta(0)
        self._runner = asyncio.Runner()
        self._own = psycopg.connect(url, autocommit=True)
        self.execute(f"truncate {TABLES} restart identity")
        self.store: Store = self.run(self.open())

    @contextmanager
    def connection(self, *, autocommit: bool = False) -> Iterator[psycopg.Connection]:
        """The same connection every time: the model looks at everything after each step."""
        with nullcontext() if autocommit else self._own.transaction():
            yield self._own

    def run(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        return self._runner.run(call)

    def now(self) -> datetime:
        return super().now() + self._ahead

    def advance(self, by: timedelta) -> None:
        super().advance(by)
        self._ahead += by

    def close(self) -> None:  # type: ignore[override]
        self._own.close()
        self.run(super().close())
        self._runner.close()
