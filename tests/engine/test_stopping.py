"""Told to stop: claim no more, finish what is in flight, hand back the rest, and say what is in doubt."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from sendonce.domain.outcomes import Delivered
from sendonce.engine import background
from sendonce.engine import worker as worker_module
from sendonce.errors import StoreBusy
from sendonce.observability.facts import DatabaseLost, Stopped, Stopping
from sendonce.observability.logs import worded
from sendonce.store.ports import Store
from tests.engine.faults import faulty
from tests.engine.rig import Silent, Told, given_many, never, once, serving, working
from tests.processes import until_async
from tests.store.databases import Database, SqliteDatabase


def outcomes(database: Database) -> Counter[tuple[str, str | None]]:
    return Counter((row["outcome"], row["error_code"]) for row in database.rows("attempts"))


async def test_graceful_stop_finishes_what_is_in_flight_and_claims_no_more(database: Database, store: Store) -> None:
    given_many(database, 10)
    gate = asyncio.Event()
    channel = Told(once(gate, Delivered()))

    async with working(store, serving(channel), concurrency=4) as here:
        await until_async(lambda: channel.sending == 4, "four in flight")
        here.worker.stop()
        await until_async(lambda: here.said(Stopping), "the claiming to end")
        gate.set()
        stopped = await here.ended()

    assert stopped == Stopped(finished=4, in_doubt=0)
    assert worded(stopped)[1] == "stopped: 4 finished, 0 in doubt"
    assert here.said(Stopping)[0].in_flight == 4
    assert Counter(row["status"] for row in database.rows("deliveries")) == {"Completed": 4, "Pending": 6}
    assert database.one("select count(*) from sendonce_leases") == 0
    assert database.rows("workers")[0]["stopped_at"] is not None


async def test_graceful_stop_hands_back_what_was_not_begun(sqlite: SqliteDatabase, sqlite_store: Store) -> None:
    given_many(sqlite, 4)
    channel = Told(Delivered())
    watched, store = faulty(sqlite_store)

    async with working(store, serving(channel), concurrency=4) as here:
        # The order to stop comes while the claim is on its way.
        watched.on_start = lambda limit: here.worker.stop()
        stopped = await here.ended()

    assert channel.sent == []
    assert stopped.in_doubt == 0
    assert outcomes(sqlite) == {("Deferred", "handed_back"): 4}
    assert {(row["status"], row["in_doubt"]) for row in sqlite.rows("deliveries")} == {("PendingRetry", 0)}


async def test_send_that_outlasts_the_grace_period_is_in_doubt(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_many(database, 2)
    monkeypatch.setattr(worker_module, "AFTER_CUT_SECONDS", 30.0)
    channel = Told(never)
    policy = {"timeout": "48s", "doubt_wait": "1m"}

    async with working(store, serving(channel, **policy), grace=timedelta(milliseconds=100)) as here:
        await until_async(lambda: channel.sending == 2, "two in flight")
        stopped = await here.stopped()

    assert stopped.in_doubt == 2
    assert outcomes(database) == {("Unknown", "stopped"): 2}
    assert {bool(row["in_doubt"]) for row in database.rows("deliveries")} == {True}


async def test_results_that_cannot_be_written_are_counted_in_doubt(
    sqlite: SqliteDatabase, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_many(sqlite, 3)
    monkeypatch.setattr(worker_module, "AFTER_CUT_SECONDS", 0.2)
    broken, store = faulty(sqlite_store)
    broken.before["settle"] = [StoreBusy("away")] * 1000

    async with working(store, serving(Told(Delivered())), grace=timedelta(milliseconds=100)) as here:
        await until_async(lambda: "settle" in broken.calls, "the first try")
        stopped = await here.stopped()

    assert stopped == Stopped(finished=0, in_doubt=3)
    assert {row["status"] for row in sqlite.rows("deliveries")} == {"InProgress"}


async def test_worker_that_is_idle_stops_at_once(sqlite_store: Store) -> None:
    rest = Silent()

    async with working(sqlite_store, serving(Told(Delivered())), notifier=rest) as here:
        await until_async(lambda: rest.is_waited_for, "its rest, which nothing else ends")
        stopped = await here.stopped()

    assert stopped == Stopped(finished=0, in_doubt=0)
    assert here.said(Stopping) == []


async def test_worker_stops_while_the_database_is_away(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FIRST_SECONDS", 3600.0)
    broken, store = faulty(sqlite_store)
    broken.before["start"] = [StoreBusy("away")] * 1000

    async with working(store, serving(Told(Delivered()))) as here:
        await until_async(lambda: here.said(DatabaseLost), "its wait for the database, which nothing else ends")
        await here.stopped()

    assert broken.calls == ["start"]


async def test_full_worker_stops(sqlite: SqliteDatabase, sqlite_store: Store) -> None:
    """It waits for a slot then, not for the database."""
    given_many(sqlite, 3)
    gate = asyncio.Event()
    channel = Told(once(gate, Delivered()))
    async with working(sqlite_store, serving(channel), concurrency=1) as here:
        await until_async(lambda: channel.sending == 1, "one in flight")
        here.worker.stop()
        gate.set()
        stopped = await here.ended()

    assert stopped.finished == 1
