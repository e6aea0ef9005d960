"""Subscriptions: who gets what, parked while paused, due again on resume."""

import pytest

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.outcomes import Delivered
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.ports import Store
from tests.given import HOLD, WORKER, given_event, given_lease, settle_with
from tests.store.databases import Database


async def subscribe(store: Store, *types: str, tenant: str = "", destination: str = "null:hook") -> int:
    return await store.add_subscription(
        tenant=tenant, types=types, destination=destination, policy=None, description="theirs", operator="ada"
    )


async def change(store: Store, subscription_id: int, state: str, reason: str | None = None) -> None:
    await store.set_subscription_state(subscription_id, state, operator="ada", reason=reason)


async def claimed(store: Store) -> list[int]:
    started = await store.start(WORKER, 10, HOLD)
    if started.lease is None and started.parked:
        started = await store.start(WORKER, 10, HOLD)
    return [] if started.lease is None else [claim.delivery_id for claim in started.lease.claims]


@pytest.mark.parametrize(
    ("types", "matches"),
    [
        (["order.created"], True),
        (["order.*"], True),
        (["*"], True),
        (["order.paid", "order.created"], True),
        (["order.paid"], False),
        (["order"], False),
        (["orders.*"], False),
        (["order.created.*"], False),
    ],
)
async def test_subscriptions_that_match_get_their_delivery(
    database: Database, store: Store, types: list[str], matches: bool
) -> None:
    subscription_id = await subscribe(store, *types)

    event_id = given_event(database, type="order.created")

    rows = await store.deliveries_of(event_id)
    assert [row.subscription_id for row in rows] == ([subscription_id] if matches else [])


async def test_W3_one_event_makes_one_delivery_per_subscription_however_it_matches(
    database: Database, store: Store
) -> None:
    subscription_id = await subscribe(store, "order.created", "order.*", "*")

    first = given_event(database, type="order.created", key="o-1")
    second = given_event(database, type="order.created", key="o-1")

    [row] = await store.deliveries_of(first)
    assert first == second
    assert (row.subscription_id, row.destination) == (subscription_id, f"subscription:{subscription_id}")
    assert len(database.rows("deliveries")) == 1


async def test_claim_has_the_subscriptions_address_and_policy(database: Database, store: Store) -> None:
    subscription_id = await store.add_subscription(
        tenant="",
        types=["*"],
        destination="https://example.com/hook",
        policy='{"max_attempts": 5}',
        description=None,
        operator="ada",
    )
    given_event(database)

    [claim] = (await given_lease(store)).claims

    assert (claim.destination, claim.address) == (f"subscription:{subscription_id}", "https://example.com/hook")
    assert (claim.subscription_id, claim.subscription_state) == (subscription_id, "active")
    assert claim.policy == '{"max_attempts": 5}'


@pytest.mark.parametrize("state", ["paused", "disabled"])
async def test_event_for_a_paused_subscription_is_parked_and_due_again_on_resume(
    database: Database, store: Store, state: str
) -> None:
    subscription_id = await subscribe(store, "*")
    given_event(database)
    await settle_with(store, await given_lease(store), Delivered())
    await change(store, subscription_id, state, "holiday")
    event_id = given_event(database)
    [delivery] = await store.deliveries_of(event_id)

    held = await claimed(store)
    parked = await store.delivery(delivery.id)
    subscription = await store.subscription(subscription_id)
    await change(store, subscription_id, "active")

    assert held == []
    assert parked is not None
    assert (parked.status, parked.next_attempt_at) == (DeliveryState.PENDING, None)
    assert parked.parked_on == f"subscription:{subscription_id}"
    assert subscription is not None
    assert (subscription.state, subscription.state_reason) == (state, "holiday")
    assert await claimed(store) == [delivery.id]


async def test_removed_subscription_gets_nothing_more_and_stays_removed(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store, "*")
    await change(store, subscription_id, "removed")

    event_id = given_event(database)

    assert not await store.deliveries_of(event_id)
    assert not await store.subscriptions(None)
    with pytest.raises(NotFound):
        await change(store, subscription_id, "active")


async def test_delivery_for_a_removed_subscription_is_not_forgotten(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store, "*")
    await change(store, subscription_id, "paused")
    event_id = given_event(database)
    await claimed(store)

    await change(store, subscription_id, "removed")

    [delivery] = await store.deliveries_of(event_id)
    assert delivery.parked_on is None
    [claim] = (await given_lease(store)).claims
    assert (claim.delivery_id, claim.subscription_state) == (delivery.id, "removed")


async def test_subscription_that_does_not_exist_cannot_be_changed(store: Store) -> None:
    with pytest.raises(NotFound):
        await change(store, 10**9, "paused")


async def test_subscriptions_see_the_events_of_their_own_tenant_only(database: Database, store: Store) -> None:
    acme = await subscribe(store, "*", tenant="acme")
    globex = await subscribe(store, "*", tenant="globex")

    events = {tenant: given_event(database, tenant=tenant, key="same") for tenant in ("acme", "globex", "")}

    rows = {tenant: await store.deliveries_of(event_id) for tenant, event_id in events.items()}
    assert len(set(events.values())) == 3
    assert [row.subscription_id for row in rows["acme"]] == [acme]
    assert [row.subscription_id for row in rows["globex"]] == [globex]
    assert not rows[""]


async def test_subscriptions_are_listed_by_tenant(store: Store) -> None:
    acme = await subscribe(store, "b.*", "a", tenant="acme")
    other = await subscribe(store, "*", tenant="other")

    [row] = await store.subscriptions("acme")
    everything = await store.subscriptions(None)

    assert (row.id, row.tenant, row.destination, row.state) == (acme, "acme", "null:hook", "active")
    assert (sorted(row.types), row.description, row.policy) == (["a", "b.*"], "theirs", None)
    assert [each.id for each in everything] == [other, acme]
    assert not await store.subscriptions("nobody")
    assert await store.subscription(10**9) is None


async def test_rate_is_kept_changed_and_lifted(database: Database, store: Store) -> None:
    limited = await store.add_subscription(
        tenant="", types=["*"], destination="null:hook", policy=None, description=None, operator="ada", rate=2.5
    )
    free = await subscribe(store, "a")

    async def rate(subscription_id: int) -> float | None:
        row = await store.subscription(subscription_id)
        assert row is not None
        return row.rate

    before = (await rate(limited), await rate(free))
    await store.set_subscription_rate(limited, None, operator="ada", reason="they can take it")
    await store.set_subscription_rate(free, 0.5, operator="ada", reason=None)

    assert before == (2.5, None)
    assert (await rate(limited), await rate(free)) == (None, 0.5)
    log = [(row["kind"], row["subject"], row["reason"]) for row in database.rows("operations")[-2:]]
    assert log == [
        ("rate", f"subscription {limited}", "they can take it"),
        ("rate", f"subscription {free}", None),
    ]


async def test_delivery_waiting_for_a_rate_is_due_again_when_there_is_none(database: Database, store: Store) -> None:
    subscription_id = await store.add_subscription(
        tenant="", types=["*"], destination="null:hook", policy=None, description=None, operator="ada", rate=1
    )
    event_id = given_event(database)
    held = await claimed(store)
    waiting = await store.waiting_in([f"rate:{subscription_id}", "rate:999"])

    await store.set_subscription_rate(subscription_id, 2, operator="ada", reason=None)
    slower = await store.waiting_in([f"rate:{subscription_id}"])
    await store.set_subscription_rate(subscription_id, None, operator="ada", reason=None)

    assert held == []
    assert waiting == {f"rate:{subscription_id}": 1, "rate:999": 0}
    assert slower == {f"rate:{subscription_id}": 1}
    [delivery] = await store.deliveries_of(event_id)
    assert await claimed(store) == [delivery.id]


@pytest.mark.parametrize("removed", [True, False])
async def test_subscription_that_is_gone_gets_no_rate(store: Store, removed: bool) -> None:
    subscription_id = await subscribe(store, "*") if removed else 10**9
    if removed:
        await change(store, subscription_id, "removed")

    with pytest.raises(NotFound):
        await store.set_subscription_rate(subscription_id, 1.0, operator="ada", reason=None)


@pytest.mark.parametrize("rate", [0.0, -1.0])
async def test_rate_of_nothing_is_refused_by_the_database(database: Database, store: Store, rate: float) -> None:
    subscription_id = await subscribe(store, "*")

    with pytest.raises(NotAllowed):
        await store.set_subscription_rate(subscription_id, rate, operator="ada", reason=None)

    assert database.rows("subscriptions")[0]["rate"] is None
