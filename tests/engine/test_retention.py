"""The worker's retention: its passes, whose turn it is, and what it says."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from sendonce.domain.outcomes import Delivered
from sendonce.engine import daemon, retention
from sendonce.engine.daemon import Parts
from sendonce.engine.retention import Retention, RetentionSettings, share_of
from sendonce.errors import ConfigError, StoreBusy, StoreError
from sendonce.observability.facts import Fact, Pruned, PruningFailed, PruningLate, Settled
from sendonce.store.ports import Store
from sendonce.store.sqlite.store import SqliteStore
from sendonce.store.upkeep import Stage
from tests.engine.rig import QUICK, QUICK_CONFIG, Told, given_many, serving
from tests.given import given_due_delivery, given_lease, settle_with
from tests.processes import until_async
from tests.store.databases import Database, SqliteDatabase

NOW = timedelta(0)
DAY = timedelta(days=1)
AT_ONCE = RetentionSettings(payloads=NOW, history=NOW, keys=NOW, batch=10)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SHARE", 0.9)


async def given_finished(database: Database, store: Store, amount: int) -> None:
    given_many(database, amount)
    await settle_with(store, await given_lease(store, limit=amount), Delivered("n"))


async def test_M13_pass_goes_through_everything_and_says_what_has_gone(database: Database, store: Store) -> None:
    await given_finished(database, store, 25)
    given_due_delivery(database)
    facts: list[Fact] = []

    await Retention(store, AT_ONCE, facts.append, worker_id=1).look()

    assert facts == [Pruned(contents=25, deliveries=25, events=25, rest=0)]
    assert len(database.rows("events")) == 1
    assert {row["held_by"] for row in database.rows("retention")} == {None}


async def test_M13_several_workers_make_one_pass(database: Database, store: Store) -> None:
    await given_finished(database, store, 25)
    facts: list[Fact] = []
    stores = [store, await database.open(), await database.open()]
    # One stage: a second one that runs at the same time passes over the events that the first one holds.
    settings = replace(AT_ONCE, payloads=None)

    await asyncio.gather(
        *(Retention(each, settings, facts.append, worker_id=n).look() for n, each in enumerate(stores, 1))
    )

    assert facts == [Pruned(contents=0, deliveries=25, events=25, rest=0)]
    assert database.rows("events") == []


async def test_pass_that_was_cut_short_is_taken_up_where_it_was(database: Database, store: Store) -> None:
    await given_finished(database, store, 25)
    dying, others = Retention(store, AT_ONCE, print, worker_id=1), Retention(store, AT_ONCE, print, worker_id=2)
    task = asyncio.create_task(dying.look())
    await until_async(
        lambda: database.one("select last_id from sendonce_retention where part = 'payloads'") >= 10, "a step"
    )
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

    database.advance(timedelta(hours=2))
    await others.look()

    assert database.rows("events") == []


async def test_next_pass_comes_when_it_is_due(database: Database, store: Store) -> None:
    settings = replace(AT_ONCE, every=timedelta(hours=1))
    one = Retention(store, settings, print, worker_id=1)
    await one.look()
    await given_finished(database, store, 3)

    await one.look()
    assert len(database.rows("events")) == 3
    database.advance(timedelta(hours=1))
    await one.look()

    assert database.rows("events") == []


async def test_event_open_at_its_turn_goes_with_the_next_whole_pass(database: Database, store: Store) -> None:
    settings = replace(AT_ONCE, every=timedelta(hours=1))
    one = Retention(store, settings, print, worker_id=1)
    given_due_delivery(database)
    await one.look()
    await settle_with(store, await given_lease(store), Delivered("n"))

    database.advance(timedelta(hours=1))
    await one.look()
    assert len(database.rows("events")) == 1
    database.advance(DAY)
    await one.look()

    assert database.rows("events") == []


class Forbidden(SqliteStore):
    """A store whose login may not prune."""

    error: Exception

    async def take_turn(self, part: str, turn: object, *, whole: timedelta) -> int | None:
        raise self.error


async def test_retention_says_once_what_prevents_it(sqlite: SqliteDatabase) -> None:
    facts: list[Fact] = []
    store = await Forbidden.connect(sqlite.url)
    one = Retention(store, AT_ONCE, facts.append, worker_id=1)
    for store.error in (StoreError("not allowed"), StoreError("not allowed"), StoreBusy("later")):
        await one.look()
    await store.close()

    assert facts == [PruningFailed(reason="not allowed")]


async def test_worker_prunes_by_itself_and_a_long_pass_does_not_hold_up_its_end(sqlite: SqliteDatabase) -> None:
    given_many(sqlite, 30)
    facts: list[Fact] = []
    settings = replace(AT_ONCE, every=timedelta(milliseconds=50), batch=1)
    parts = Parts(
        open_store=sqlite._connect,
        channels=serving(Told(Delivered("n"))),
        config=QUICK_CONFIG,
        emit=facts.append,
        version="1",
        policy=QUICK,
        retention=settings,
    )
    stop = asyncio.Event()
    working = asyncio.create_task(daemon.run(parts, stop=stop))
    await until_async(lambda: sum(fact.completed for fact in facts if isinstance(fact, Settled)) == 30, "all is sent")
    await until_async(lambda: len(sqlite.rows("events")) < 30, "the first event to go")
    stop.set()

    stopped = await asyncio.wait_for(working, 50)

    assert (stopped.finished, stopped.in_doubt) == (30, 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"keys": DAY}, "keys must be kept at least as long as history"),
        ({"history": None}, "keys must be kept at least as long as history"),
        ({"batch": 0}, "batch must be"),
        ({"every": NOW}, "every must be"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RetentionSettings(**wrong)  # type: ignore[arg-type]


def test_history_goes_with_the_key_at_the_same_time() -> None:
    assert list(RetentionSettings().stages) == [Stage.PAYLOADS, Stage.KEYS]
    assert list(RetentionSettings(keys=100 * DAY).stages) == [*Stage]
    assert list(RetentionSettings(payloads=None, keys=None).stages) == [Stage.HISTORY]
    assert RetentionSettings(payloads=None, history=None, keys=None).stages == {}


def test_pass_that_has_fallen_behind_gets_a_larger_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SHARE", 0.04)

    shares = [share_of(minutes * 60.0) for minutes in (0, 0.9, 1, 2, 3, 4, 600, 1e9)]

    assert shares == [0.04, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5, 0.5]


async def test_share_of_a_pass_grows_while_it_goes_on(
    sqlite: SqliteDatabase, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await given_finished(sqlite, sqlite_store, 25)
    shares: list[float] = []

    async def pause(begun: float, share: float) -> None:
        shares.append(share)

    monkeypatch.setattr(retention, "SHARE", 0.04)
    monkeypatch.setattr(retention, "DOUBLES_EVERY", 1e-9)
    monkeypatch.setattr(retention, "_pause", pause)
    await Retention(sqlite_store, replace(AT_ONCE, payloads=None), print, worker_id=1).look()

    assert len(shares) > 2
    assert set(shares[1:3]) == {retention.LARGEST_SHARE}


async def test_pass_that_takes_longer_than_there_is_between_two_is_said_once(
    sqlite: SqliteDatabase, sqlite_store: Store
) -> None:
    await given_finished(sqlite, sqlite_store, 25)
    facts: list[Fact] = []
    moment = timedelta(microseconds=1)

    await Retention(sqlite_store, replace(AT_ONCE, payloads=None, every=moment), facts.append, worker_id=1).look()

    assert [fact for fact in facts if isinstance(fact, PruningLate)] == [PruningLate(part="keys", every=moment)]
