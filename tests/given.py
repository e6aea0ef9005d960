"""Builders: what a test needs to be there before it begins, recorded the way callers do it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Protocol

from sendonce.domain.attempts import Lease, Report, Result, Verdict, resolve
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.events import To
from sendonce.domain.outcomes import Delivered, Failed, Outcome, Refused
from sendonce.domain.policies import Policy
from sendonce.store.ports import LeaseStore, OrchestratorStore, Store

POLICY = Policy(
    max_attempts=3,
    first_delay=timedelta(seconds=10),
    longest_delay=timedelta(seconds=100),
    jitter=0,
    doubt_wait=timedelta(seconds=30),
)
HOLD = timedelta(minutes=1)
WORKER = 1
_numbers = count(1)


class Recorder(Protocol):
    """A database that callers record on."""

    def publish(self, type: str, payload: object, **arguments: Any) -> int: ...

    def one(self, sql: str, *values: object) -> Any: ...


def given_event(
    database: Recorder,
    *,
    type: str = "memo.created",
    payload: object = None,
    key: str | None = None,
    to: To | None = None,
    **arguments: Any,
) -> int:
    """Record and commit an event; its id. Without a key it gets one of its own."""
    own = key if key is not None else f"key-{next(_numbers)}"
    return database.publish(type, {"memo": 1} if payload is None else payload, key=own, to=to, **arguments)


def given_due_delivery(database: Recorder, *, to: To | None = "null:a", **arguments: Any) -> int:
    """Record an event for one destination; the delivery's id."""
    event_id = given_event(database, to=to, **arguments)
    delivery_id = database.one("select id from sendonce_deliveries where event_id = ?", event_id)
    assert isinstance(delivery_id, int)
    return delivery_id


def given_due_deliveries(database: Recorder, amount: int, **arguments: Any) -> list[int]:
    return [given_due_delivery(database, **arguments) for _ in range(amount)]


async def given_lease(store: OrchestratorStore, *, limit: int = 10, hold: timedelta = HOLD) -> Lease:
    """Claim what is due; there must be something."""
    started = await store.start(WORKER, limit, hold)
    assert started.lease is not None
    return started.lease


async def given_delivery_in(database: Recorder, store: Store, state: DeliveryState, **arguments: Any) -> int:
    """A delivery that has come to this state the ordinary way. Nothing else may be due."""
    delivery_id = given_due_delivery(database, **arguments)
    if state is DeliveryState.PENDING:
        return delivery_id
    lease = await given_lease(store)
    outcomes: dict[DeliveryState, Outcome] = {
        DeliveryState.PENDING_RETRY: Failed("503"),
        DeliveryState.COMPLETED: Delivered("n-1"),
        DeliveryState.DEAD_LETTERED: Refused("410"),
    }
    if state in outcomes:
        assert await settle_with(store, lease, outcomes[state]) == [Verdict.APPLIED]
        await store.release([lease.id])
    return delivery_id


async def given_dead_letter(database: Recorder, store: Store) -> int:
    """A delivery that was refused; its id."""
    return await given_delivery_in(database, store, DeliveryState.DEAD_LETTERED)


def report(lease: Lease, outcome: Outcome, *, of: int = 0, cleared: bool = False) -> Report:
    """What a sender says of one claim of this lease."""
    return Report(lease.claims[of], lease.id, outcome, cleared)


def decided(reports: Sequence[Report], policy: Policy = POLICY, *, can_look_up: bool | None = False) -> list[Result]:
    """Each report with its decision."""
    return [resolve(one, policy, can_look_up=can_look_up) for one in reports]


def result(
    lease: Lease, outcome: Outcome, policy: Policy = POLICY, *, of: int = 0, can_look_up: bool | None = False
) -> Result:
    [one] = decided([report(lease, outcome, of=of)], policy, can_look_up=can_look_up)
    return one


async def settle_with(
    store: OrchestratorStore,
    lease: Lease,
    outcome: Outcome,
    policy: Policy = POLICY,
    *,
    can_look_up: bool | None = False,
) -> list[Verdict]:
    """Settle every claim of a lease with the same outcome."""
    places = range(len(lease.claims))
    return await store.settle([result(lease, outcome, policy, of=each, can_look_up=can_look_up) for each in places])


async def expire(store: LeaseStore, policy: Policy = POLICY, *, can_look_up: bool | None = False) -> list[Result]:
    """Close what has expired, decided by this policy."""
    return await store.expire(100, lambda reports: decided(reports, policy, can_look_up=can_look_up))


def later(database: Any, by: timedelta) -> datetime:
    """A moment that far from the database's now."""
    moment: datetime = database.now() + by
    return moment
