"""A worker with its alarm: it tells of what it meets, and is held up by nothing of it."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Refused, Unknown
from sendonce.engine import daemon
from sendonce.engine.alerter import Alerter
from sendonce.engine.alerts import AlertSettings
from sendonce.engine.daemon import Parts
from sendonce.observability.facts import Alerted, Fact, Incident, Stopped
from sendonce.store.ports import Store
from tests.alarms import let_pass
from tests.engine.rig import QUICK, QUICK_CONFIG, Told, given_many, never, serving
from tests.given import given_due_delivery
from tests.processes import until_async
from tests.store.databases import Database, SqliteDatabase

WEBHOOK = "https://ops.example/alerts"
HOUR = timedelta(hours=1)
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TROUBLES: dict[str, Failed | Refused | Unknown] = {"one": Failed("a"), "two": Refused("b"), "three": Unknown("c")}
SLOW = replace(QUICK, first_delay=HOUR, longest_delay=HOUR)


def said(facts: list[Fact]) -> list[tuple[str, bool]]:
    return [(fact.name, fact.is_over) for fact in facts if isinstance(fact, Alerted)]


def parts_of(database: Database, channels: Channels, facts: list[Fact], alerts: AlertSettings, **config: Any) -> Parts:
    return Parts(
        open_store=database._connect,
        channels=channels,
        config=replace(QUICK_CONFIG, **config),
        emit=facts.append,
        version="1",
        policy=QUICK,
        alerts=alerts,
    )


async def test_worker_tells_of_faults_on_our_side_of_dead_letters_and_of_what_nobody_serves(
    database: Database, store: Store
) -> None:
    given_many(database, 3)
    given_due_delivery(database, to="other:a")
    given_due_delivery(database, to="unserved:a")
    facts: list[Fact] = []
    channels = serving(Told(Deferred("our_credentials", again_in=HOUR)))
    channels.add(Told(Refused("no")), "other")

    await asyncio.wait_for(daemon.run(parts_of(database, channels, facts, AlertSettings(), until_idle=True)), 50)

    assert sorted(said(facts)) == [("dead_letters", False), ("our_credentials:test", False)]
    [alert] = [row for row in database.rows("alerts") if row["name"] == "our_credentials:test"]
    assert alert["message"].startswith("test: 3 attempts put off")
    facts.clear()
    let_pass(database, timedelta(minutes=16))
    await Alerter(store, AlertSettings(), [], facts.append).look()
    [told] = [fact for fact in facts if isinstance(fact, Alerted) and fact.name == "oldest_open"]
    assert "on its way for" in told.message
    assert (await store.status()).parked_by == (("channel", 1),)


async def test_dead_receiver_is_told_of_though_nothing_is_due(database: Database, store: Store) -> None:
    """Its deliveries wait behind its breaker: none is due, and no attempt is spent."""
    facts: list[Fact] = []
    for number in range(15):
        given_due_delivery(database, to="test://dead.example/hook", key=str(number))
    channels = serving(Told(Failed("http_503")))
    parts = parts_of(database, channels, facts, AlertSettings(), until_idle=True, breaker_after=3)
    await asyncio.wait_for(daemon.run(replace(parts, policy=SLOW)), 50)
    assert said(facts) == []
    alarm = Alerter(store, AlertSettings(), [], facts.append)

    let_pass(database, timedelta(minutes=6))
    await alarm.look()
    assert (await store.readings(HOUR)).oldest_due_at is None
    let_pass(database, timedelta(minutes=10))
    await alarm.look()

    assert said(facts) == [("breakers", False), ("oldest_open", False)]


async def test_worker_names_what_failed_was_given_up_or_is_in_doubt(database: Database) -> None:
    facts: list[Fact] = []
    ids = {
        outcome.code: given_due_delivery(database, to=f"{scheme}:a", headers={"traceparent": TRACEPARENT})
        for scheme, outcome in TROUBLES.items()
    }
    channels = serving(Told(Delivered()))
    for scheme, outcome in TROUBLES.items():
        channels.add(Told(outcome), scheme)
    given_due_delivery(database, to="test:a")
    parts = parts_of(database, channels, facts, AlertSettings(), until_idle=True)

    await asyncio.wait_for(daemon.run(replace(parts, policy=SLOW)), 50)

    told = {fact.code: fact for fact in facts if isinstance(fact, Incident)}
    assert {code: fact.delivery for code, fact in told.items()} == ids
    assert {code: fact.kind for code, fact in told.items()} == {"a": "failed", "b": "given up", "c": "in doubt"}
    assert {fact.trace for fact in told.values()} == {TRACEPARENT[3:35]}
    assert {fact.attempt for fact in told.values()} == {1}


async def test_worker_looks_while_it_works(sqlite: SqliteDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    given_many(sqlite, 1)
    facts: list[Fact] = []
    channels = serving(Told(Refused("no")))
    workers: list[Any] = []
    monkeypatch.setattr(daemon, "_stop_on_signals", workers.append)
    parts = parts_of(sqlite, channels, facts, AlertSettings(every=timedelta(seconds=1)))

    running = asyncio.create_task(daemon.run(parts))
    await until_async(lambda: said(facts), "an alert")
    workers[0].stop()
    await asyncio.wait_for(running, 50)

    assert said(facts) == [("dead_letters", False)]


async def test_way_that_never_answers_does_not_hold_up_the_worker(sqlite: SqliteDatabase) -> None:
    given_many(sqlite, 20)
    facts: list[Fact] = []
    channels = serving(Told(Refused("no"), Delivered()))
    channels.add(Told(never), "https")
    settings = AlertSettings(webhook=WEBHOOK, every=timedelta(seconds=1))

    async def run() -> Stopped:
        return await daemon.run(parts_of(sqlite, channels, facts, settings, until_idle=True))

    running = asyncio.create_task(run())
    await until_async(lambda: any(isinstance(fact, Stopped) for fact in facts), "all work is done")
    stopped = next(fact for fact in facts if isinstance(fact, Stopped))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert stopped.finished == 20


async def test_worker_without_alerts_tells_nothing(sqlite: SqliteDatabase) -> None:
    given_many(sqlite, 1)
    facts: list[Fact] = []
    parts = replace(
        parts_of(sqlite, serving(Told(Refused("no"))), facts, AlertSettings(), until_idle=True), alerts=None
    )

    await asyncio.wait_for(daemon.run(parts), 50)

    assert said(facts) == []
