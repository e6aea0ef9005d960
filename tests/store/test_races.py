"""Pause, stop and resume racing publishers and workers: afterwards nothing is forgotten."""

import asyncio

import pytest

from sendonce.domain.outcomes import Delivered, Failed
from sendonce.store.ports import Store
from tests.given import HOLD, WORKER, expire, given_due_deliveries, given_event, given_lease, settle_with
from tests.store.databases import Database

ROUNDS = 12
FORGOTTEN = """
    select count(*) from sendonce_deliveries d
     where d.status in ('Pending', 'PendingRetry')
       and d.next_attempt_at is null
       and not exists (select 1 from sendonce_stops t where d.parked_on = 'stop:' || t.scope || ':' || t.value)
       and not exists (
         select 1 from sendonce_subscriptions s
          where d.parked_on = 'subscription:' || s.id and s.state in ('paused', 'disabled'))
"""


async def drain(store: Store, *, rounds: int = 100) -> int:
    """Send all that can be claimed; how many that were."""
    sent = 0
    for _ in range(rounds):
        started = await store.start(WORKER, 5, HOLD)
        if started.lease is not None:
            await settle_with(store, started.lease, Delivered())
            await store.release([started.lease.id])
            sent += len(started.lease.claims)
        elif not started.parked:
            break
    return sent


async def test_pause_and_resume_racing_a_publish_and_a_worker_forget_nothing(database: Database, store: Store) -> None:
    worker, person = await database.open(), await database.open()
    subscription_id = await store.add_subscription(
        tenant="", types=["*"], destination="null:hook", policy=None, description=None, operator="ada"
    )

    async def toggle() -> None:
        for state in ("paused", "active", "disabled", "active", "paused"):
            await person.set_subscription_state(subscription_id, state, operator="ada", reason=None)

    async def publish() -> None:
        for _ in range(4):
            await asyncio.to_thread(given_event, database)

    sent = 0
    for _ in range(ROUNDS):
        _, _, first, second = await asyncio.gather(toggle(), publish(), drain(worker, rounds=6), drain(store, rounds=6))
        sent += first + second
        assert database.one(FORGOTTEN) == 0

    await person.set_subscription_state(subscription_id, "active", operator="ada", reason=None)
    sent += await drain(store)
    assert sent == 4 * ROUNDS
    assert database.one("select count(*) from sendonce_deliveries where status = 'Completed'") == 4 * ROUNDS


@pytest.mark.parametrize(("scope", "value"), [("channel", "null"), ("tenant", ""), ("all", "")])
async def test_stop_and_resume_racing_workers_forget_nothing(
    database: Database, store: Store, scope: str, value: str
) -> None:
    worker, person = await database.open(), await database.open()

    async def toggle() -> None:
        for _ in range(3):
            await person.stop(scope, value, operator="ada", reason=None)
            await person.resume(scope, value, operator="ada")
        await person.stop(scope, value, operator="ada", reason=None)

    sent = 0
    for _ in range(ROUNDS):
        given_due_deliveries(database, 4)
        _, first, second = await asyncio.gather(toggle(), drain(worker, rounds=6), drain(store, rounds=6))
        sent += first + second
        assert database.one(FORGOTTEN) == 0
        await person.resume(scope, value, operator="ada")

    sent += await drain(store)
    assert sent == 4 * ROUNDS


async def test_W16_two_people_who_requeue_at_once_open_one_generation(database: Database, store: Store) -> None:
    other = await database.open()
    for _ in range(ROUNDS):
        ids = given_due_deliveries(database, 3)
        lease = await given_lease(store)
        await settle_with(store, lease, Delivered())

        answers = await asyncio.gather(
            store.open_generations(ids, kind="replay", operator="ada", reason="again"),
            other.open_generations(ids[::-1], kind="replay", operator="bob", reason="again"),
            return_exceptions=True,
        )

        assert [isinstance(answer, Exception) for answer in answers].count(False) == 1
        await drain(store)
    assert database.one("select count(*) from sendonce_deliveries where generation = 1") == 3 * ROUNDS
    assert database.one("select count(*) from sendonce_deliveries where generation > 1") == 0


async def test_cancel_racing_a_claim_has_one_winner(database: Database, store: Store) -> None:
    person = await database.open()
    for _ in range(ROUNDS):
        ids = given_due_deliveries(database, 4)

        started, cancelled = await asyncio.gather(
            store.start(WORKER, 10, HOLD), person.cancel(ids, operator="ada", reason="wrong")
        )

        sent = {claim.delivery_id for claim in started.lease.claims} if started.lease else set()
        assert sent | set(cancelled.ids) == set(ids)
        assert sent & set(cancelled.ids) == set()
        if started.lease:
            await settle_with(store, started.lease, Delivered())


async def test_expiry_racing_the_workers_own_result_decides_it_once(database: Database, store: Store) -> None:
    keeper = await database.open()
    for _ in range(ROUNDS):
        ids = given_due_deliveries(database, 3)
        lease = await given_lease(store)
        database.advance(HOLD * 2)

        await asyncio.gather(settle_with(store, lease, Failed("503")), expire(keeper))

        counts = [row["attempt_count"] for row in database.rows("deliveries") if row["id"] in ids]
        assert counts == [1, 1, 1]
        await store.cancel(ids, operator="ada", reason="tidy")
    assert database.rows("leases") == []
