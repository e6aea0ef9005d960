"""Few queries when there is nothing to do, none late when there is; and the notifier."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from sendonce.compose import open_notifier
from sendonce.domain.outcomes import Delivered
from sendonce.outbox.outbox import Outbox
from sendonce.store.ports import Notifier, Store
from tests.engine.faults import faulty
from tests.engine.rig import Told, given_many, once, serving, working
from tests.given import given_due_delivery
from tests.processes import until_async
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase, SqliteDatabase

HOUR = timedelta(hours=1)


@pytest.fixture
def postgres(postgres_server: Server, postgres_template: str) -> Iterator[PostgresDatabase]:
    name = postgres_server.create_database(template=postgres_template)
    yield PostgresDatabase(postgres_server.dsn(name))
    postgres_server.drop_database(name)


class Pauses:
    """A notifier that nobody rings: it knows for how long the worker would have rested each time, in milliseconds."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def wait(self, timeout: timedelta) -> None:
        self.asked.append(timeout / timedelta(milliseconds=1))
        await asyncio.sleep(0)

    async def close(self) -> None:
        return


class ForAnHour:
    """A notifier that is waited for so long each time: what is found sooner, it has rung for."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self.rests = 0

    async def wait(self, timeout: timedelta) -> None:
        self.rests += 1
        await self._notifier.wait(HOUR)

    async def close(self) -> None:
        await self._notifier.close()


async def test_M11_idle_worker_asks_seldom(sqlite_store: Store) -> None:
    watched, store = faulty(sqlite_store)
    pauses = Pauses()

    async with working(store, serving(Told(Delivered())), poll=timedelta(milliseconds=400), notifier=pauses):
        await until_async(lambda: len(pauses.asked) >= 8, "the quick ones at first, and two more")
        looks, rests = watched.calls.count("start"), len(pauses.asked)

    assert pauses.asked[:8] == [10, 20, 40, 80, 160, 320, 400, 400]
    assert looks - rests in (0, 1), "one before each pause"


async def test_worker_that_was_idle_is_quick_again_when_there_is_work(
    sqlite: SqliteDatabase, sqlite_store: Store
) -> None:
    channel = Told(Delivered())
    pauses = Pauses()

    async with working(sqlite_store, serving(channel), poll=timedelta(milliseconds=400), notifier=pauses):
        await until_async(lambda: len(pauses.asked) >= 7, "rest")
        given_due_delivery(sqlite, to="test:a")
        await until_async(lambda: len(channel.sent) == 1, "the delivery")
        await until_async(lambda: 80 in pauses.asked[7:], "quick looks")

    assert pauses.asked[pauses.asked.index(10, 7) :][:4] == [10, 20, 40, 80]


async def test_backlog_is_claimed_without_pauses(sqlite: SqliteDatabase, sqlite_store: Store) -> None:
    given_many(sqlite, 200)
    watched, store = faulty(sqlite_store)

    async with working(
        store, serving(Told(Delivered())), concurrency=10, poll=timedelta(minutes=1), until_idle=True
    ) as here:
        await here.ended()

    assert 20 <= watched.calls.count("start") <= 30


async def test_worker_with_a_full_claim_asks_again_at_once(sqlite: SqliteDatabase, sqlite_store: Store) -> None:
    given_many(sqlite, 20)
    pauses = Pauses()
    rests: list[int] = []

    async def send() -> Delivered:
        rests.append(len(pauses.asked))
        return Delivered()

    async with working(sqlite_store, serving(Told(send)), concurrency=1, notifier=pauses, until_idle=True) as here:
        await here.ended()

    assert rests == [0] * 20


async def test_worker_for_once_looks_twice_after_its_last_result(sqlite: SqliteDatabase, sqlite_store: Store) -> None:
    """Where something is there that it cannot have: only the second look has looked everywhere."""
    given_due_delivery(sqlite, to="test:a")
    watched, store = faulty(sqlite_store)
    gate = asyncio.Event()
    looks: list[int] = []

    async def is_empty(served: object) -> bool:
        looks.append(1)
        return False

    channel = serving(Told(once(gate, Delivered())))
    async with working(store, channel, notifier=Pauses(), until_idle=True, once=True) as here:
        here.worker._waiting.is_empty = is_empty  # type: ignore[method-assign]
        await until_async(lambda: watched.calls.count("start") >= 5, "it found nothing while it was sending")
        gate.set()
        await here.ended()

    assert len(looks) == 2


async def test_announcement_wakes_the_worker_long_before_the_poll(postgres: PostgresDatabase) -> None:
    store = await postgres.open()
    channel = Told(Delivered())
    notifier = ForAnHour(open_notifier(postgres.url))

    async with working(store, serving(channel), notifier=notifier) as here:
        # The first rest ends when it listens; it looks once more then.
        await until_async(lambda: notifier.rests == 2, "rest")
        with postgres.connection() as connection:
            Outbox(notify=True).publish(connection, "memo.created", {}, key="1", to="test:a")
        await until_async(lambda: len(channel.sent) == 1, "the delivery")
        await here.stopped()

    await notifier.close()
    await postgres.close()


async def test_worker_whose_doorbell_is_cut_off_goes_on_polling(postgres: PostgresDatabase) -> None:
    store = await postgres.open()
    channel = Told(Delivered())
    notifier = open_notifier(postgres.url)

    async with working(store, serving(channel), poll=timedelta(milliseconds=200), notifier=notifier):
        await until_async(lambda: listeners(postgres), "somebody who listens")
        postgres.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and query = 'listen sendonce'"
        )
        given_due_delivery(postgres, to="test:a")
        await until_async(lambda: len(channel.sent) == 1, "the delivery")
        await until_async(lambda: listeners(postgres), "it to listen again")

    await notifier.close()
    await postgres.close()


def listeners(database: PostgresDatabase) -> int:
    return int(
        database.one(
            "select count(*) from pg_stat_activity where datname = current_database() and query = 'listen sendonce'"
        )
    )
