"""start(): who gets what, and that nobody gets it twice."""

import asyncio
import json
from datetime import timedelta

import pytest

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Delivered, Failed
from sendonce.store.ports import Store
from tests.given import (
    HOLD,
    WORKER,
    given_due_deliveries,
    given_due_delivery,
    given_lease,
    later,
    settle_with,
)
from tests.store.aging import without_rules
from tests.store.databases import Database

HOUR = timedelta(hours=1)


async def test_claim_without_due_work_gives_no_lease(database: Database, store: Store) -> None:
    started = await store.start(WORKER, 10, HOLD)

    assert started.lease is None
    assert started.parked == 0
    assert database.one("select count(*) from sendonce_leases") == 0


async def test_claim_brings_all_that_a_sender_needs(database: Database, store: Store) -> None:
    email = Email("Ada@Example.com", subject="Saved", text="Grüße")
    delivery_id = given_due_delivery(
        database,
        type="memo.saved",
        payload={"memo": 7},
        key="memo-7",
        to=email,
        tenant="acme",
        subject="memo 7",
        version=3,
        headers={"trace": "t-1"},
        if_unsure="hold",
    )

    [claim] = (await given_lease(store)).claims

    assert (claim.delivery_id, claim.attempt, claim.generation, claim.corrections) == (delivery_id, 1, 0, 0)
    assert (claim.tenant, claim.type, claim.key) == ("acme", "memo.saved", "memo-7")
    assert claim.destination == claim.address == "mailto:Ada@example.com"
    assert json.loads(claim.payload or "") == {"memo": 7}
    assert claim.content == email.content()
    assert json.loads(claim.headers or "{}") == {"trace": "t-1"}
    assert (claim.subject, claim.version, claim.if_unsure) == ("memo 7", 3, "hold")
    assert (claim.attempt_count, claim.deferred_count) == (0, 0)
    assert (claim.in_doubt, claim.is_proven) == (False, False)
    assert (claim.subscription_id, claim.subscription_state, claim.policy) == (None, None, None)
    assert (claim.notification_id, claim.seconds_left) == (None, None)
    assert abs(claim.recorded_at - database.now()) < HOUR


async def test_W9_what_is_claimed_is_in_progress_with_one_leased_attempt(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)

    lease = await given_lease(store)

    row = await store.delivery(delivery_id)
    assert row is not None
    assert (row.status, row.next_attempt_at) == (DeliveryState.IN_PROGRESS, None)
    [attempt] = await store.attempts_of(delivery_id)
    assert (attempt.attempt, attempt.status, attempt.lease_id) == (1, "Leased", lease.id)
    assert attempt.outcome is None
    held = await store.lease_of(delivery_id)
    assert held is not None
    assert (held.id, held.worker_id) == (lease.id, WORKER)


async def test_blanked_payload_is_none_and_not_an_empty_text(database: Database, store: Store) -> None:
    given_due_delivery(database)
    with without_rules(database) as connection:
        connection.execute("update sendonce_events set payload = null, content_gone_at = created_at")

    [claim] = (await given_lease(store)).claims

    assert claim.payload is None


async def test_claim_takes_the_oldest_first_and_no_more_than_asked_for(database: Database, store: Store) -> None:
    ages = {3: 3, 1: 1, 5: 5, 2: 2, 4: 4}
    ids = {age: given_due_delivery(database, deliver_at=later(database, -timedelta(minutes=age))) for age in ages}

    first = await given_lease(store, limit=2)
    second = await given_lease(store, limit=2)
    third = await given_lease(store, limit=2)

    assert {claim.delivery_id for claim in first.claims} == {ids[5], ids[4]}
    assert {claim.delivery_id for claim in second.claims} == {ids[3], ids[2]}
    assert {claim.delivery_id for claim in third.claims} == {ids[1]}
    assert len({first.id, second.id, third.id}) == 3


async def test_delivery_due_later_is_claimed_later(database: Database, store: Store) -> None:
    given_due_delivery(database, deliver_at=later(database, HOUR))

    early = await store.start(WORKER, 10, HOLD)
    database.advance(HOUR + timedelta(seconds=1))
    in_time = await store.start(WORKER, 10, HOLD)

    assert early.lease is None
    assert in_time.lease is not None


async def test_W9_retry_is_claimed_only_when_it_is_due(database: Database, store: Store) -> None:
    given_due_delivery(database)
    await settle_with(store, await given_lease(store), Failed("503"))

    early = await store.start(WORKER, 10, HOLD)
    database.advance(timedelta(seconds=11))
    again = await given_lease(store)

    assert early.lease is None
    assert (again.claims[0].attempt, again.claims[0].attempt_count) == (2, 1)


@pytest.mark.parametrize(("ahead", "low", "high"), [(60, 50, 60), (-60, -70, -59)])
async def test_claim_says_how_much_time_is_left(
    database: Database, store: Store, ahead: int, low: int, high: int
) -> None:
    given_due_delivery(database, expires_at=later(database, timedelta(seconds=ahead)))

    [claim] = (await given_lease(store)).claims

    assert claim.seconds_left is not None
    assert low <= claim.seconds_left <= high


async def test_workers_never_lease_one_delivery_twice(database: Database, store: Store) -> None:
    stores = [store, *[await database.open() for _ in range(3)]]
    for _ in range(8):
        ids = given_due_deliveries(database, 10)

        started = await asyncio.gather(*(each.start(WORKER, 4, HOLD) for each in stores))
        claimed = [claim.delivery_id for each in started if each.lease for claim in each.lease.claims]
        while (rest := await store.start(WORKER, 10, HOLD)).lease is not None:
            claimed += [claim.delivery_id for claim in rest.lease.claims]

        assert sorted(claimed) == sorted(ids)
    assert database.one("select count(*) from sendonce_attempts") == 80


async def test_workers_that_drain_together_send_each_delivery_once(database: Database, store: Store) -> None:
    ids = given_due_deliveries(database, 60)
    stores = [store, await database.open(), await database.open()]
    sent: list[int] = []

    async def work(own: Store) -> None:
        while (started := await own.start(WORKER, 5, HOLD)).lease is not None:
            sent.extend(claim.delivery_id for claim in started.lease.claims)
            await settle_with(own, started.lease, Delivered())

    await asyncio.gather(*(work(own) for own in stores))
    await work(store)

    assert sorted(sent) == sorted(ids)
    assert database.one("select count(*) from sendonce_deliveries where status = 'Completed'") == 60


async def test_claim_can_be_seen_by_others_when_start_returns(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)

    lease = await given_lease(store)

    assert database.one("select lease_id from sendonce_attempts where delivery_id = ?", delivery_id) == lease.id
    assert database.one("select id from sendonce_leases") == lease.id


async def test_store_is_idle_only_when_nothing_is_due_or_in_flight(database: Database, store: Store) -> None:
    assert await store.is_idle()

    given_due_delivery(database)
    assert not await store.is_idle()

    lease = await given_lease(store)
    assert not await store.is_idle()

    database.advance(HOLD + timedelta(seconds=1))
    assert not await store.is_idle()  # a dead worker's lease is in flight until it was closed

    await settle_with(store, lease, Failed("503"))
    assert await store.is_idle()  # waiting for a retry is idle

    await store.release([lease.id])
    assert await store.is_idle()
    database.advance(timedelta(minutes=5))
    assert not await store.is_idle()
