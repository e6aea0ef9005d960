"""A consumer at work in a test: a place at a broker, a database with accounts, and a runner in this process."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from sendonce.compose import amigrate, is_sqlite, open_store
from sendonce.consumer.handling import Handling
from sendonce.consumer.incoming import Incoming
from sendonce.consumer.registry import Consumer
from sendonce.consumer.runner import Runner
from sendonce.consumer.transactions import slots_on, transactions_on
from sendonce.engine.background import Outage
from sendonce.engine.health import Health
from sendonce.observability.facts import Fact
from tests.consumer.brokers import Place
from tests.processes import SECONDS


class Bank:
    """A database with one account; what handlers do to it is what the tests count."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def make(self) -> None:
        await amigrate(self.url)
        self.ask("create table account (message text not null, amount int not null)")

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Run SQL, committed at once; its rows."""
        if is_sqlite(self.url):
            connection = sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=SECONDS)
            with connection:
                found = connection.execute(sql).fetchall()
            connection.close()
            return found
        with psycopg.connect(self.url, autocommit=True) as postgres:
            cursor = postgres.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    @property
    def deducted(self) -> list[str]:
        """The messages whose effect is there, each as often as it is."""
        return sorted(message for (message,) in self.ask("select message from account"))

    @property
    def dead(self) -> list[str]:
        """The messages that were given up."""
        return sorted(
            message for (message,) in self.ask("select message_id from sendonce_messages where status = 'DeadLettered'")
        )

    def rows(self, columns: str) -> list[tuple[Any, ...]]:
        return self.ask(f"select {columns} from sendonce_messages order by id")


def new_bank(database: str, tmp_path: Path, request: Any) -> Bank:
    """A bank on a new database of this kind."""
    return Bank(f"sqlite:///{tmp_path}/bank.db" if database == "sqlite" else request.getfixturevalue("pg_dsn"))


async def deduct(connection: Any, message: Incoming) -> None:
    """The effect: one row for each message, on either driver."""
    values = (message.id, message.json()["amount"])
    if isinstance(connection, sqlite3.Connection):
        connection.execute("insert into account values (?, ?)", values)
    else:
        await connection.execute("insert into account values (%s, %s)", values)


class Work:
    """A runner and what it has said."""

    def __init__(self, runner: Runner, facts: list[Fact]) -> None:
        self.runner = runner
        self.facts = facts

    def of(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.facts if isinstance(each, kind)]


@asynccontextmanager
async def working(
    bank: Bank,
    place: Place,
    handler: Callable[..., Any] = deduct,
    *,
    until_idle: bool = False,
    patience: float = 60.0,
    **settings: Any,
) -> AsyncIterator[Work]:
    """Run a consumer beside the block, and end it with grace."""
    consumer = Consumer(name="wallet", source=f"nats:main/{place.name}", handler=handler, **settings)
    facts: list[Fact] = []
    store = await open_store(bank.url, writes=True)
    slots = [Handling(consumer, transactions_on(bank.url, consumer.begin)) for _ in range(slots_on(bank.url, consumer))]
    runner = Runner(
        consumer,
        place.source(prefetch=consumer.prefetch, patience=patience),
        store,
        slots,
        facts.append,
        worker="test:1",
        grace=timedelta(seconds=SECONDS),
        outage=Outage("consumers", facts.append),
        health=Health("consumer"),
        until_idle=until_idle,
    )
    running = asyncio.create_task(runner.run())
    try:
        yield Work(runner, facts)
    finally:
        runner.stop()
        try:
            async with asyncio.timeout(SECONDS):
                await running
        finally:
            await store.close()


async def until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)
