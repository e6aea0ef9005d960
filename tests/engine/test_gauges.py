"""Gauges of the database: one worker has them, and only while it knows them."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sendonce.domain.limits import Limits
from sendonce.domain.outcomes import Failed, Refused, Unknown
from sendonce.domain.serving import Served
from sendonce.engine import metrics_server as module
from sendonce.engine.metrics_server import Gauges
from sendonce.errors import StoreBusy, StoreError
from sendonce.observability.facts import Fact, MetricsFailed
from sendonce.observability.metrics import CAUSES, OF_THE_DATABASE, exposition
from sendonce.store.ports import Store
from sendonce.store.upkeep import Stage
from tests.alarms import let_pass
from tests.given import given_due_deliveries, given_due_delivery, given_event, given_lease, later, settle_with
from tests.processes import until_async
from tests.scrapes import samples_of
from tests.store.aging import backdate, begun_earlier
from tests.store.databases import Database


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The worker's own time, in seconds; the last one counts. The database's goes on by itself."""
    times = [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: times[-1]))
    return times


async def eldest(store: Store) -> Gauges:
    worker_id = await store.register("host:1", "1", 10, is_listening=True)
    return Gauges(store, worker_id, lambda _: None, {"null", "https"}, {Stage.PAYLOADS: timedelta(days=30)})


def shown(gauges: Gauges) -> dict[str, float]:
    return samples_of(exposition(gauges.measured(), "")[0].decode())


async def test_gauges_show_nothing_before_they_were_read(store: Store) -> None:
    gauges = await eldest(store)

    assert shown(gauges) == {}


async def test_M12_gauges_show_pending_failed_and_retrying(database: Database, store: Store) -> None:
    gauges = await eldest(store)
    given_due_deliveries(database, 2)
    await settle_with(store, await given_lease(store), Refused("410"))
    given_due_deliveries(database, 3)
    await settle_with(store, await given_lease(store), Failed("503"))
    given_due_delivery(database)
    await settle_with(store, await given_lease(store), Unknown("timeout"))
    given_due_delivery(database, deliver_at=later(database, timedelta(hours=1)))
    given_due_delivery(database)
    await given_lease(store)
    given_due_deliveries(database, 5)

    await gauges.look()

    found = shown(gauges)
    assert {name.partition("{")[0] for name in found} == {metric.name for metric in OF_THE_DATABASE}
    assert found.pop("sendonce_oldest_due_age_seconds") < 60
    assert 0 < found.pop('sendonce_oldest_open_age_seconds{channel="null"}') < 60
    assert found == {
        "sendonce_deliveries_due": 5,
        "sendonce_deliveries_scheduled": 5,
        "sendonce_deliveries_retrying": 4,
        "sendonce_deliveries_in_flight": 1,
        "sendonce_deliveries_in_doubt": 1,
        **{f'sendonce_deliveries_parked{{cause="{cause}"}}': 0 for cause in CAUSES},
        "sendonce_deliveries_not_served": 0,
        **{f'sendonce_oldest_open_age_seconds{{channel="{channel}"}}': 0 for channel in ("https", "other")},
        **{f'sendonce_breakers_open{{channel="{channel}"}}': 0 for channel in ("https", "null", "other")},
        "sendonce_dead_letters_open": 2,
        'sendonce_retention_behind_seconds{part="payloads"}': 0,
        "sendonce_workers_alive": 1,
        "sendonce_stops": 0,
        "sendonce_inbox_waiting": 0,
        "sendonce_inbox_dead": 0,
        "sendonce_inbox_oldest_due_age_seconds": 0,
        "sendonce_inbox_duplicates_total": 0,
        "sendonce_alerts_raised": 0,
        "sendonce_schema_version": (await store.status()).schema_version,
    }


async def test_age_of_what_is_due_grows_and_is_zero_when_nothing_is(database: Database, store: Store) -> None:
    gauges = await eldest(store)
    await gauges.look()
    assert shown(gauges)["sendonce_oldest_due_age_seconds"] == 0
    given_due_delivery(database)
    database.advance(timedelta(minutes=7))

    other = await eldest_again(database, store)

    assert 420 <= shown(other)["sendonce_oldest_due_age_seconds"] < 480


async def test_gauge_shows_how_far_retention_is_behind(database: Database, store: Store) -> None:
    begun_earlier(database, timedelta(days=9))
    backdate(database, timedelta(days=32), given_event(database))

    found = shown(await eldest_again(database, store))

    behind = {name: value for name, value in found.items() if "retention" in name}
    assert [*behind] == ['sendonce_retention_behind_seconds{part="payloads"}']
    assert 2 * 86_400 <= behind.popitem()[1] < 2 * 86_400 + 60


async def test_gauge_of_age_ignores_what_is_parked_or_stopped_on_purpose(database: Database, store: Store) -> None:
    given_due_delivery(database, to="sms:1")
    given_due_delivery(database)
    await store.stop("channel", "sms", operator="ada", reason=None)
    await settle_with(store, await given_lease(store), Refused("410"))
    database.advance(timedelta(hours=1))
    parked = shown(await eldest_again(database, store))
    given_due_delivery(database)
    database.advance(timedelta(hours=1))
    await store.stop("all", "", operator="ada", reason=None)

    stopped = shown(await eldest_again(database, store))

    assert parked['sendonce_deliveries_parked{cause="stop"}'] == 1
    assert stopped["sendonce_stops"] == 2
    for found in (parked, stopped):
        assert {value for name, value in found.items() if "_oldest_" in name} == {0}


async def test_gauge_of_age_labels_known_channels_only(database: Database, store: Store) -> None:
    for to in ("https://dead.example/hook", "chosen-by-somebody:1", "chosen-by-another:2"):
        await store.trip(f"destination:{to}", pause=timedelta(minutes=1), code=None)
        given_due_delivery(database, to=to)
    await store.start(1, 10, timedelta(minutes=1))
    let_pass(database, timedelta(minutes=7))

    found = shown(await eldest_again(database, store))

    assert found["sendonce_oldest_due_age_seconds"] == 0
    assert found['sendonce_deliveries_parked{cause="breaker"}'] == 3
    for channel, breakers in (("https", 1), ("other", 2), ("null", 0)):
        assert found[f'sendonce_breakers_open{{channel="{channel}"}}'] == breakers
        age = found[f'sendonce_oldest_open_age_seconds{{channel="{channel}"}}']
        assert (420 <= age < 480) if breakers else age == 0
    assert "chosen" not in repr(found)


async def eldest_again(database: Database, store: Store) -> Gauges:
    """The only live worker, and what it has read just now."""
    database.execute("update sendonce_workers set stopped_at = seen_at")
    gauges = await eldest(store)
    await gauges.look()
    return gauges


async def test_M12_of_several_workers_one_has_them(database: Database, store: Store) -> None:
    all = [await eldest(store) for _ in range(3)]

    for gauges in all:
        await gauges.look()

    assert [bool(shown(gauges)) for gauges in all] == [True, False, False]


async def test_gauges_are_the_next_workers_when_the_eldest_has_stopped(database: Database, store: Store) -> None:
    first, second = await eldest(store), await eldest(store)
    await first.look()
    await store.leave(first._worker_id)

    await first.look()
    await second.look()

    assert [bool(shown(gauges)) for gauges in (first, second)] == [False, True]


async def test_gauges_read_at_most_every_fifteen_seconds(database: Database, store: Store, clock: list[float]) -> None:
    gauges = await eldest(store)
    await gauges.look()
    given_due_delivery(database)
    clock.append(1014)
    await gauges.look()
    assert shown(gauges)["sendonce_deliveries_due"] == 0

    clock.append(1016)
    await gauges.look()

    assert shown(gauges)["sendonce_deliveries_due"] == 1


class Troubled:
    """A store that fails on demand."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.failing: dict[str, Exception] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self.failing:
            raise self.failing[name]
        return getattr(self._store, name)


async def test_gauges_show_nothing_that_is_too_old(sqlite_store: Store, clock: list[float]) -> None:
    store = Troubled(sqlite_store)
    gauges = await eldest(cast(Store, store))
    await gauges.look()
    store.failing["status"] = StoreBusy("no")

    for now, is_shown in ((1015, True), (1030, True), (1045, True), (1046, False)):
        clock.append(now)
        with pytest.raises(StoreBusy):
            await gauges.look()
        assert bool(shown(gauges)) is is_shown


async def test_gauges_of_a_worker_that_cannot_ask_show_nothing_before_anothers(
    sqlite_store: Store, clock: list[float]
) -> None:
    gauges = await eldest(sqlite_store)
    await gauges.look()
    clock.append(1010)
    assert shown(gauges)

    clock.append(1011)

    assert not shown(gauges)


async def test_trouble_is_told_once_and_ends_nothing(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.001)
    store = Troubled(sqlite_store)
    facts: list[Fact] = []
    gauges = Gauges(cast(Store, store), await sqlite_store.register("host:1", "1", 10, is_listening=True), facts.append)
    store.failing["is_eldest"] = StoreError("no rights")
    looking = asyncio.create_task(gauges.run())
    await until_async(lambda: facts, "a fact")

    store.failing.clear()
    await until_async(lambda: shown(gauges), "a reading")
    looking.cancel()

    assert facts == [MetricsFailed(reason="no rights")]


async def test_gauge_shows_what_no_live_worker_serves(database: Database, store: Store) -> None:
    for to in ("fax:1", "fax:2", "sms:1", "null:"):
        given_due_delivery(database, to=to)
    await store.start(1, 100, timedelta(minutes=1), Limits(served=Served(["null"])))
    gauges = await eldest(store)
    await gauges.look()

    found = shown(gauges)
    assert found["sendonce_deliveries_not_served"] == 3
    assert found['sendonce_deliveries_parked{cause="channel"}'] == 3
