"""Subscriptions that change: their policy and types; a test event for one alone; and what has not arrived."""

from datetime import timedelta

import pytest

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.events import new_event
from sendonce.domain.outcomes import Delivered, Failed, Refused
from sendonce.errors import NotFound
from sendonce.store import filters
from sendonce.store.ports import Store
from tests.given import (
    HOLD,
    expire,
    given_delivery_in,
    given_due_delivery,
    given_event,
    given_lease,
    result,
    settle_with,
)
from tests.store.databases import Database
from tests.store.seeding import seed_subscriptions
from tests.store.test_subscriptions import change, subscribe

TEST = new_event("sendonce.test", {"test": True}, key="test/1", to=None)


async def test_policy_that_is_new_holds_for_what_waits_already(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store, "*")
    given_event(database)

    await store.set_subscription_policy(subscription_id, '{"max_attempts": 2}', operator="ada", reason="slow")
    [claim] = (await given_lease(store)).claims
    await store.set_subscription_policy(subscription_id, None, operator="ada", reason=None)

    assert claim.policy == '{"max_attempts": 2}'
    row = await store.subscription(subscription_id)
    assert row is not None
    assert row.policy is None
    log = [(row["kind"], row["subject"], row["reason"]) for row in database.rows("operations")[-2:]]
    assert log == [
        ("policy", f"subscription {subscription_id}", "slow"),
        ("policy", f"subscription {subscription_id}", None),
    ]


async def test_address_to_ask_at_holds_for_what_waits_and_for_what_lost_its_lease(
    database: Database, store: Store
) -> None:
    ask = "https://hooks.example/receipts/{token}"
    subscription_id = await subscribe(store, "*")
    given_event(database)

    await store.set_subscription_ask(subscription_id, ask, operator="ada", reason="it can be asked now")
    [claim] = (await given_lease(store)).claims
    database.advance(HOLD + timedelta(seconds=1))
    [expired] = await expire(store)
    await store.set_subscription_ask(subscription_id, None, operator="ada", reason=None)

    assert (claim.ask, expired.report.claim.ask) == (ask, ask)
    row = await store.subscription(subscription_id)
    assert row is not None
    assert row.ask is None
    assert [each["kind"] for each in database.rows("operations")[-2:]] == ["ask", "ask"]


async def test_types_of_a_subscription_are_replaced_for_its_own_tenant(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store, "order.*", "memo.created", tenant="acme")

    await store.set_subscription_types(subscription_id, ["memo.*", "memo.created"], operator="ada", reason=None)

    events = [
        given_event(database, type=type, tenant=tenant)
        for type, tenant in [("order.created", "acme"), ("memo.created", "acme"), ("memo.created", "")]
    ]
    assert [len(await store.deliveries_of(each)) for each in events] == [0, 1, 0]
    row = await store.subscription(subscription_id)
    assert row is not None
    assert row.types == ("memo.*", "memo.created")


async def test_test_goes_to_one_subscription_whatever_the_others_listen_to(database: Database, store: Store) -> None:
    one, _ = await subscribe(store, "order.*", tenant="acme"), await subscribe(store, "*", tenant="acme")

    [delivery_id] = (await store.add_test(one, TEST, operator="ada")).ids

    [event], [row] = database.rows("events"), database.rows("deliveries")
    assert event["routed"] == 1
    assert (row["id"], row["subscription_id"], row["status"]) == (delivery_id, one, "Pending")
    delivery = await store.delivery(delivery_id)
    assert delivery is not None
    assert (delivery.tenant, delivery.type, delivery.destination) == ("acme", TEST.type, f"subscription:{one}")
    [claim] = (await given_lease(store)).claims
    assert (claim.address, claim.payload) == ("null:hook", '{"test":true}')
    assert database.rows("operations")[-1]["subject"] == f"subscription {one}"


@pytest.mark.parametrize("removed", [True, False])
async def test_subscription_that_is_gone_is_not_changed_and_not_tested(
    database: Database, store: Store, removed: bool
) -> None:
    subscription_id = await subscribe(store, "*") if removed else 10**9
    if removed:
        await change(store, subscription_id, "removed")

    with pytest.raises(NotFound):
        await store.set_subscription_policy(subscription_id, None, operator="ada", reason=None)
    with pytest.raises(NotFound):
        await store.set_subscription_types(subscription_id, ["a"], operator="ada", reason=None)
    with pytest.raises(NotFound):
        await store.set_subscription_ask(subscription_id, None, operator="ada", reason=None)
    with pytest.raises(NotFound):
        await store.add_test(subscription_id, TEST, operator="ada")

    assert database.rows("events") == database.rows("subscription_types") == []


async def test_subscriptions_come_in_pages(store: Store) -> None:
    ids = [await subscribe(store, "*", tenant=tenant) for tenant in ("acme", "other", "acme", "acme")]

    first = await store.subscriptions("acme", limit=2)
    second = await store.subscriptions("acme", before=first.next_before, limit=2)

    assert [row.id for row in first] == [ids[3], ids[2]]
    assert [row.id for row in second] == [ids[0]]
    assert second.is_end


async def everywhere(database: Database, store: Store) -> dict[str, int]:
    """One delivery in every place where it has not arrived, and others that have, or that somebody has closed."""
    found = {"given up": await given_delivery_in(database, store, DeliveryState.DEAD_LETTERED)}
    discarded = await given_delivery_in(database, store, DeliveryState.DEAD_LETTERED)
    letter = await store.dead_letter_of(discarded)
    assert letter is not None
    await store.discard([letter.id], operator="ada", reason="old")
    await given_delivery_in(database, store, DeliveryState.COMPLETED)
    found["retrying"] = await given_delivery_in(database, store, DeliveryState.PENDING_RETRY)
    found["in flight"] = await given_delivery_in(database, store, DeliveryState.IN_PROGRESS)
    paused = await subscribe(store, "parked")
    await change(store, paused, "paused")
    event_id = given_event(database, type="parked")
    assert (await store.start(1, 10, HOLD)).parked
    found["parked"] = (await store.deliveries_of(event_id))[0].id
    found["due"] = given_due_delivery(database)
    return found


@pytest.mark.parametrize("is_much", [False, True])
async def test_undelivered_work_is_listed_wherever_it_is(
    database: Database, store: Store, is_much: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await everywhere(database, store)
    given_due_delivery(database, tenant="acme")
    if is_much:  # more than is looked at at once
        monkeypatch.setattr(filters, "SIZES", (1, 8))

    page = await store.undelivered("", limit=2)
    pages = [[row.id for row in page]]
    while not page.is_end:
        page = await store.undelivered("", before=page.next_before, limit=2)
        pages.append([row.id for row in page])

    wanted = sorted(found.values(), reverse=True)
    assert [each for page in pages for each in page] == wanted
    assert {len(each) for each in pages} <= {0, 1, 2}
    assert len(await store.undelivered(None)) == len(wanted) + 1


async def test_undelivered_requeue_is_listed_once_and_not_when_it_has_arrived(database: Database, store: Store) -> None:
    delivery_id = await given_delivery_in(database, store, DeliveryState.DEAD_LETTERED)
    [again] = (await store.open_generations([delivery_id], kind="requeue", operator="ada", reason="back")).ids

    before = [row.id for row in await store.undelivered(None)]
    await settle_with(store, await given_lease(store), Delivered("n"))

    assert before == [again]
    assert not await store.undelivered(None)


async def test_event_to_10_000_subscriptions_is_10_000_deliveries(database: Database, store: Store) -> None:
    seed_subscriptions(database, 10_000)

    event_id = given_event(database, type="order.paid", tenant="acme")

    rows = database.execute(
        "select count(*), count(distinct subscription_id), count(distinct destination_hash)"
        " from sendonce_deliveries where event_id = ? and status = 'Pending'",
        event_id,
    )
    assert rows == [(10_000, 10_000, 10_000)]
    lease = await given_lease(store, limit=500)
    assert len({claim.address for claim in lease.claims}) == 500
    await store.settle(
        [result(lease, (Delivered("n"), Failed("503"), Refused("410"))[n % 3], of=n) for n in range(500)]
    )
    assert len(await store.undelivered("acme", limit=1000)) == 1000


async def test_undelivered_retry_with_its_lease_still_there_is_listed_once(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    await settle_with(store, await given_lease(store), Failed("503"))

    assert [row.id for row in await store.undelivered(None)] == [delivery_id]
