"""The lease keeper: what it does when, and what it does when the database is away."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sendonce.domain.attempts import Report, Result, Witness
from sendonce.domain.decide import complete
from sendonce.domain.outcomes import Unknown
from sendonce.engine import lease_keeper as keeper_module
from sendonce.engine.lease_keeper import HeldLeases, LeaseKeeper, lease_time
from sendonce.errors import StoreBusy, StoreError
from sendonce.observability.facts import DatabaseBack, DatabaseLost, Expired, Fact, LeasesLost
from sendonce.store.ports import LeaseStore, Store
from tests.domain.values import a_claim
from tests.engine.rig import Told, serving, working
from tests.given import given_due_delivery, given_lease
from tests.processes import until_async
from tests.store.databases import Database

SECOND = timedelta(seconds=1)


class Recording:
    """A lease store that notes its calls. `away` makes every call fail; `expired` rounds of expiry find something."""

    def __init__(
        self, *, granted: set[int] | None = None, expired: int = 0, slow: Callable[[], None] = lambda: None
    ) -> None:
        self.calls: list[tuple[str, object]] = []
        self.away: Exception | None = None
        self.granted = granted
        self.expired = expired
        self.slow = slow
        self.to_roll_up = 1
        self.steps: list[int | None] = []

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _note(self, name: str, value: object = None) -> None:
        if self.away is not None:
            raise self.away
        self.calls.append((name, value))

    async def renew(self, lease_ids: Sequence[int], hold: timedelta) -> set[int]:
        self._note("renew", list(lease_ids))
        return set(lease_ids) if self.granted is None else self.granted

    async def release(self, lease_ids: Sequence[int]) -> None:
        self._note("release", list(lease_ids))

    async def expire(self, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]) -> list[Result]:
        self._note("expire")
        if not self.expired:
            return []
        self.expired -= 1
        self.slow()
        return list(decide([Report(a_claim(), 1, Unknown("lease_expired"))]))

    async def beat(self, worker_id: int, *, progressed: bool, witness: Witness | None) -> None:
        self._note("beat", progressed)

    async def leave(self, worker_id: int) -> None:
        self._note("leave")

    async def end_loss(self) -> None:
        self._note("end_loss")

    async def adopt(self, after: int, limit: int, decide: object) -> tuple[list[Result], int | None]:
        self._note("adopt", after)
        return [], self.steps.pop(0) if self.steps else None

    async def roll_up_counters(self) -> bool:
        self._note("roll_up_counters")
        self.to_roll_up -= 1
        return self.to_roll_up > 0


def decided(reports: Sequence[Report]) -> list[Result]:
    return [Result(report, complete()) for report in reports]


def keeper_of(
    store: Recording, held_leases: HeldLeases, facts: list[Fact] | None = None, *, hold: timedelta = SECOND
) -> LeaseKeeper:
    emit = [] if facts is None else facts
    return LeaseKeeper(cast(LeaseStore, store), held_leases, decided, worker_id=1, hold=hold, emit=emit.append)


def a_book(*ids: int) -> HeldLeases:
    held_leases = HeldLeases()
    for id in ids:
        held_leases.enter(id, lease_time() + 1, 1)
    return held_leases


async def test_lease_keeper_renews_first_and_then_releases_expires_and_beats() -> None:
    store, held_leases = Recording(), a_book(1, 2, 3)
    held_leases.settled([3])

    await keeper_of(store, held_leases).tick()

    first = [("renew", [1, 2]), ("release", [3]), ("expire", None), ("beat", True)]
    assert store.calls == [*first, ("end_loss", None), ("adopt", 0)]


class Clock:
    """The keeper's own."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def goes_on(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(
        keeper_module,
        "time",
        SimpleNamespace(monotonic=lambda: clock.now, clock_gettime=lambda _: clock.now, CLOCK_BOOTTIME=None),
    )
    return clock


async def test_leases_are_renewed_well_before_they_end(clock: Clock) -> None:
    store, held_leases = Recording(), a_book(1)
    keeper = keeper_of(store, held_leases, hold=SECOND)
    renewals = []

    for _ in range(10):
        await keeper.tick()
        renewals.append(store.names().count("renew"))
        clock.goes_on(0.125)

    assert renewals == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


async def test_renewed_lease_is_good_from_when_it_was_asked_for(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database may have renewed it long before its answer came: after that it is good for less."""

    class Slow(Recording):
        async def renew(self, lease_ids: Sequence[int], hold: timedelta) -> set[int]:
            clock.goes_on(0.4)
            return await super().renew(lease_ids, hold)

    monkeypatch.setattr(keeper_module, "lease_time", lambda: clock.now)
    held_leases, asked_at = HeldLeases(), clock.now
    lease = held_leases.enter(1, asked_at + 0.5, 1)

    await keeper_of(Slow(), held_leases, hold=SECOND).tick()

    assert lease.good_until == asked_at + 1


async def test_lease_keeper_goes_on_until_it_is_told_to_stop() -> None:
    store, held_leases = Recording(), a_book(1)
    stop = asyncio.Event()
    keeping = asyncio.create_task(keeper_of(store, held_leases, hold=SECOND).run(stop))

    await until_async(lambda: store.names().count("renew") >= 2, "another renewal")

    stop.set()
    await keeping
    assert store.names()[-1] == "leave"


async def test_lease_keeper_keeps_its_own_leases_among_many_expired(clock: Clock) -> None:
    store, held_leases = Recording(expired=12, slow=lambda: clock.goes_on(0.1)), a_book(1)

    await keeper_of(store, held_leases, hold=SECOND).tick()

    between = store.names()[1:]
    assert between.count("renew") >= 3
    assert between.index("renew") < 6


async def test_lease_that_is_lost_is_told_once_and_not_asked_for_again(clock: Clock) -> None:
    facts: list[Fact] = []
    store, held_leases = Recording(granted={2}), a_book(1, 2)
    keeper = keeper_of(store, held_leases, facts)

    await keeper.tick()
    clock.goes_on(0.25)
    await keeper.tick()

    assert facts == [LeasesLost(leases=1)]
    assert [value for name, value in store.calls if name == "renew"] == [[1, 2], [2]]


async def test_lease_keeper_says_once_that_the_database_is_away_and_back() -> None:
    facts: list[Fact] = []
    store, held_leases = Recording(), a_book(1, 2)
    held_leases.settled([2])
    store.away = StoreBusy("away")
    stop = asyncio.Event()
    keeper = keeper_of(store, held_leases, facts)
    keeping = asyncio.create_task(keeper.run(stop))
    await until_async(lambda: facts, "the news")
    for _ in range(3):
        with pytest.raises(StoreBusy):
            await keeper.tick()

    store.away = None
    await until_async(lambda: len(facts) > 1, "the good news")
    stop.set()
    await keeping

    assert [type(fact) for fact in facts] == [DatabaseLost, DatabaseBack]
    assert ("renew", [1]) in store.calls
    assert ("release", [2]) in store.calls


async def test_renewal_that_failed_is_tried_again_at_once() -> None:
    store, held_leases = Recording(), a_book(1)
    keeper = keeper_of(store, held_leases, hold=timedelta(hours=1))
    store.away = StoreBusy("away")
    with pytest.raises(StoreBusy):
        await keeper.tick()

    store.away = None
    await keeper.tick()

    assert store.calls[0] == ("renew", [1])


async def test_lease_keeper_leaves_quietly_when_the_database_is_away() -> None:
    store = Recording()
    store.away = StoreBusy("away")
    stop = asyncio.Event()
    stop.set()

    await asyncio.wait_for(keeper_of(store, a_book()).run(stop), 50)


async def test_lease_keeper_ends_loudly_on_any_other_failure() -> None:
    store = Recording()
    store.away = StoreError("the rules have changed")

    with pytest.raises(StoreError):
        await asyncio.wait_for(keeper_of(store, a_book()).run(asyncio.Event()), 50)


async def test_lease_of_a_dead_worker_is_taken_over_and_told(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database, to="test:a")
    await given_lease(store, hold=timedelta(milliseconds=1))
    channels = serving(Told(Unknown("never")))

    async with working(store, channels) as here:
        await until_async(lambda: here.said(Expired), "the take-over")

    assert here.said(Expired)[0] == Expired(attempts=1, retrying=1, dead_lettered=0)
    first: dict[str, Any] = database.rows("attempts")[0]
    assert (first["delivery_id"], first["outcome"], first["error_code"]) == (delivery_id, "Unknown", "lease_expired")
    assert database.one("select in_doubt from sendonce_deliveries") in (True, 1)


async def test_counters_are_rolled_up_until_there_are_no_more() -> None:
    store = Recording()
    store.to_roll_up = 4
    keeper = keeper_of(store, a_book())
    keeper._next["roll_up"] = 0.0

    await keeper.tick()
    await keeper.tick()

    assert store.names().count("roll_up_counters") == 4


async def test_attempts_without_a_lease_are_looked_for_step_by_step() -> None:
    store = Recording()
    store.steps = [10, 20, None, 10]
    keeper = keeper_of(store, a_book())

    for _ in range(5):
        keeper._next["adopt"] = 0.0
        await keeper.tick()

    assert [after for name, after in store.calls if name == "adopt"] == [0, 10, 20, 0, 10]
