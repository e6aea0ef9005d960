"""The webhook application as a process, its database looked at past it, and tenants with keys and paths."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from tests.apps.service import Answer, Service, running
from tests.crash.accounts import url_of
from tests.processes import until
from tests.provider import Provider
from tests.servers.postgres import Server
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase

REFUSED = (sqlite3.DatabaseError, psycopg.DatabaseError)
CLOSED = {"Completed", "DeadLettered"}
DEFAULT_LIMIT = 4
ORDER = {"order": 1}
SAGA = [
    "id", "event_id", "subscription_id", "status", "attempt_count", "next_attempt_at", "final_error_code", "created_at",
    "updated_at",
]  # fmt: skip
_numbers = count(1)

_SETTINGS = f"""
[network]
allow = ["127.0.0.0/8"]

[worker]
lease = "60s"
poll = "20ms"

[policy]
max_attempts = {DEFAULT_LIMIT}
first_delay = "50ms"
longest_delay = "100ms"
jitter = 0
timeout = "20s"
"""


def moment(value: Any) -> datetime:
    """A time of the view: PostgreSQL's own type, or text on SQLite."""
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


class Webhooks:
    """One running application. Each test takes tenants of its own."""

    def __init__(self, database: Database, provider: Provider, folder: Path) -> None:
        self.database = database
        self.provider = provider
        self.config = folder / "settings.toml"
        self.config.write_text(_SETTINGS)
        self._folder = folder
        self._running = ExitStack()
        self.service: Service | None = None

    def start(self) -> None:
        """Start the application, with its worker."""
        self.service = self._running.enter_context(
            running(
                "webhooks",
                self._folder,
                database=url_of(self.database),
                environment={"SENDONCE_CONFIG": str(self.config)},
            )
        )
        self.service.process.says("API key of globex")

    def stop(self) -> None:
        self._running.close()

    def tenant(self) -> "Tenant":
        """A new tenant, with an API key that was entered past the application."""
        name = f"tenant-{next(_numbers)}"
        key = f"key_{name}"
        self.database.execute(
            "insert into webhooks_keys (key_hash, tenant, created_at) values (?, ?, ?)",
            hashlib.sha256(key.encode()).hexdigest(),
            name,
            datetime.now(UTC).isoformat(),
        )
        return Tenant(self, name, key)

    def jobs(self, delivery_id: int) -> list[str]:
        """The states of a saga's jobs, in their order."""
        rows = self.database.execute(
            "select status from sendonce_attempts where delivery_id = ? order by attempt", delivery_id
        )
        return [row[0] for row in rows]

    def saga(self, delivery_id: int) -> dict[str, Any]:
        """A row of the document's table."""
        with self.database.connection(autocommit=True) as connection:
            cursor = connection.execute(
                self.database.spell("select * from webhook_delivery_sagas where id = ?"), (delivery_id,)
            )
            names = [column[0] for column in cursor.description]
            [row] = cursor.fetchall()
        return dict(zip(names, row, strict=True))


@contextmanager
def serving(server: Server | None, provider: Provider, folder: Path) -> Iterator[Webhooks]:
    """The application on an empty database: of this server, or on SQLite."""
    name = "" if server is None else server.create_database()
    database = SqliteDatabase(folder / "webhooks.db") if server is None else PostgresDatabase(server.dsn(name))
    made = Webhooks(database, provider, folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        if server is not None:
            server.drop_database(name)


class Tenant:
    """One that calls the application. What is sent for it goes below its own path of the provider."""

    def __init__(self, webhooks: Webhooks, name: str, key: str) -> None:
        self.webhooks = webhooks
        self.name = name
        self.path = f"/{name}"
        self._headers = {"authorization": f"Bearer {key}"}

    def call(self, method: str, path: str, body: object = None) -> Answer:
        assert self.webhooks.service is not None
        return self.webhooks.service.send(method, path, body, self._headers)

    def get(self, path: str) -> Any:
        """What there is; it must be there."""
        answer = self.call("GET", path)
        assert answer.status == 200, answer
        return answer.body

    def post(self, path: str, body: object = None) -> Any:
        """What came of it; it must have been done."""
        answer = self.call("POST", path, body)
        assert answer.status in (200, 201, 202), answer
        return answer.body

    def endpoint(self, place: str = "a", *event_types: str, **more: object) -> int:
        """A new endpoint of this tenant's, for order.* unless told; its id."""
        url = f"{self.webhooks.provider.url}{self.path}/{place}"
        added = self.post("/endpoints", {"url": url, "event_types": list(event_types) or ["order.*"], **more})
        return int(added["id"])

    def publish(self, key: str = "order-1", type: str = "order.paid", payload: object = ORDER) -> int:
        """Record an event; its id."""
        return int(self.post("/events", {"type": type, "key": key, "payload": payload})["id"])

    def deliveries(self, event_id: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"/events/{event_id}")["deliveries"]
        return found

    def delivery(self, event_id: int) -> dict[str, Any]:
        """The newest of the only pair."""
        return self.deliveries(event_id)[-1]

    def ended(self, event_id: int) -> list[dict[str, Any]]:
        """The event's deliveries, when all of them are completed or given up."""
        until(lambda: {row["status"] for row in self.deliveries(event_id)} <= CLOSED, "the end of all deliveries")
        return self.deliveries(event_id)

    def waiting(self, event_id: int) -> dict[str, Any]:
        """The only delivery, when it waits to be tried again."""
        until(lambda: self.delivery(event_id)["status"] == "PendingRetry", "a retry")
        return self.delivery(event_id)

    def letter(self, delivery_id: int) -> int:
        """The open dead letter of a delivery; its id."""
        [found] = [each["id"] for each in self.get("/dead-letters") if each["delivery_id"] == delivery_id]
        return int(found)

    def behave(self, place: str = "a", **settings: object) -> None:
        """What its receiver does from now on."""
        self.webhooks.provider.control(path=f"{self.path}/{place}", **settings)

    def counts(self) -> dict[str, int]:
        """How often the provider has accepted what was sent to each of this tenant's paths."""
        found: dict[str, int] = {}
        for message in self.webhooks.provider.messages().values():
            if message["path"].startswith(f"{self.path}/") and message["count"]:
                found[message["path"]] = found.get(message["path"], 0) + message["count"]
        return found
