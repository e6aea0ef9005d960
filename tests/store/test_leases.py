"""Leases: renewed while they last, closed in one transaction when they have ended."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from sendonce.domain.attempts import Report, Result, Verdict
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Delivered, Failed, Unknown
from sendonce.domain.policies import IfUnsure, Policy
from sendonce.store.ports import Store
from tests.given import (
    HOLD,
    decided,
    expire,
    given_due_deliveries,
    given_due_delivery,
    given_lease,
    result,
    settle_with,
)
from tests.store.databases import Database, PostgresDatabase

S = timedelta(seconds=1)


async def test_renewed_lease_lasts_longer(database: Database, store: Store) -> None:
    given_due_delivery(database)
    lease = await given_lease(store)
    database.advance(HOLD - 5 * S)

    renewed = await store.renew([lease.id], HOLD)
    database.advance(HOLD - 5 * S)

    assert renewed == {lease.id}
    assert await expire(store) == []
    assert await settle_with(store, lease, Delivered()) == [Verdict.APPLIED]


async def test_expired_lease_cannot_be_renewed(database: Database, store: Store) -> None:
    given_due_deliveries(database, 2)
    short = await given_lease(store, limit=1, hold=10 * S)
    long = await given_lease(store, limit=1, hold=60 * S)
    database.advance(11 * S)

    renewed = await store.renew([short.id, long.id, 10**9], HOLD)

    assert renewed == {long.id}
    assert [each.report.lease_id for each in await expire(store)] == [short.id]


async def test_released_lease_is_gone_and_its_results_stay(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    lease = await given_lease(store)
    await settle_with(store, lease, Delivered())

    await store.release([lease.id])
    await store.release([lease.id])

    assert database.rows("leases") == []
    assert await store.lease_of(delivery_id) is None
    assert await store.renew([lease.id], HOLD) == set()


async def test_result_is_taken_until_the_lease_was_closed(database: Database, store: Store) -> None:
    given_due_delivery(database)
    lease = await given_lease(store)
    database.advance(HOLD + S)

    assert await settle_with(store, lease, Delivered()) == [Verdict.APPLIED]
    assert await expire(store) == []
    assert database.rows("leases") == []


async def test_expired_lease_is_closed_as_unknown_and_decided(database: Database, store: Store) -> None:
    ids = given_due_deliveries(database, 2)
    lease = await given_lease(store)
    database.advance(HOLD + S)

    results = await expire(store)

    assert {each.report.claim.delivery_id for each in results} == set(ids)
    assert all(isinstance(each.report.outcome, Unknown) for each in results)
    assert {each.report.lease_id for each in results} == {lease.id}
    for delivery_id in ids:
        row = await store.delivery(delivery_id)
        assert row is not None
        assert (row.status, row.in_doubt, row.attempt_count) == (DeliveryState.PENDING_RETRY, True, 1)
        [attempt] = await store.attempts_of(delivery_id)
        assert (attempt.status, attempt.outcome) == ("Failed", "Unknown")
    assert database.rows("leases") == []
    assert await expire(store) == []


async def test_lease_expiry_closes_only_what_was_not_settled(database: Database, store: Store) -> None:
    given_due_deliveries(database, 3)
    lease = await given_lease(store)
    await store.settle([result(lease, Delivered(), of=0), result(lease, Failed("503"), of=2)])
    database.advance(HOLD + S)

    results = await expire(store)

    assert [each.report.claim.delivery_id for each in results] == [lease.claims[1].delivery_id]
    assert [row["attempt_count"] for row in database.rows("deliveries")] == [1, 1, 1]


async def test_lease_that_has_not_expired_is_left_alone(database: Database, store: Store) -> None:
    given_due_delivery(database)
    await given_lease(store)

    assert await expire(store) == []
    assert len(database.rows("leases")) == 1


async def test_leases_are_closed_no_more_than_asked_for(database: Database, store: Store) -> None:
    given_due_deliveries(database, 3)
    leases = [await given_lease(store, limit=1, hold=n * S) for n in (3, 1, 2)]
    database.advance(HOLD)

    first = await store.expire(2, decided)
    second = await store.expire(2, decided)

    assert {each.report.lease_id for each in first} == {leases[1].id, leases[2].id}
    assert {each.report.lease_id for each in second} == {leases[0].id}


async def test_lease_expiry_changes_nothing_when_the_decision_fails(database: Database, store: Store) -> None:
    given_due_deliveries(database, 2)
    await given_lease(store)
    database.advance(HOLD + S)
    tables = ("deliveries", "attempts", "leases", "dead_letters", "findings")
    before = {table: database.rows(table) for table in tables}

    def broken(reports: Sequence[Report]) -> Sequence[Result]:
        raise ZeroDivisionError(f"{len(reports)} were to be decided")

    with pytest.raises(ZeroDivisionError, match="2 were"):
        await store.expire(10, broken)

    assert {table: database.rows(table) for table in tables} == before
    assert len(await expire(store)) == 2


async def test_delivery_to_be_held_is_dead_lettered_when_its_lease_expires(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    await given_lease(store)
    database.advance(HOLD + S)

    await expire(store, Policy(if_unsure=IfUnsure.HOLD))

    letter = await store.dead_letter_of(delivery_id)
    assert letter is not None
    assert (letter.reason, letter.in_doubt) == (ReasonClass.IN_DOUBT, True)


async def test_expiry_tells_decide_all_it_needs(database: Database, store: Store) -> None:
    subscription_id = await store.add_subscription(
        tenant="acme",
        types=["memo.*"],
        destination="null:hook",
        policy='{"max_attempts": 2}',
        description=None,
        operator="ada",
    )
    given_due_delivery(
        database, to=None, tenant="acme", key="k-1", if_unsure="hold", expires_at=database.now() + timedelta(hours=1)
    )
    [sent] = (await given_lease(store)).claims
    database.advance(HOLD + S)
    seen: list[Report] = []

    def watching(reports: Sequence[Report]) -> Sequence[Result]:
        seen.extend(reports)
        return decided(reports)

    await store.expire(10, watching)

    [claim] = [one.claim for one in seen]
    assert (claim.delivery_id, claim.attempt, claim.event_id) == (sent.delivery_id, 1, sent.event_id)
    assert (claim.tenant, claim.type, claim.key) == ("acme", "memo.created", "k-1")
    assert (claim.destination, claim.address) == (f"subscription:{subscription_id}", "null:hook")
    assert (claim.policy, claim.if_unsure, claim.subscription_state) == ('{"max_attempts": 2}', "hold", "active")
    assert claim.seconds_left is not None
    assert 3400 < claim.seconds_left < 3600 - HOLD.total_seconds() + 1


async def test_lease_keepers_close_each_attempt_once(database: Database, store: Store) -> None:
    other = await database.open()
    given_due_deliveries(database, 6)
    for _ in range(6):
        await given_lease(store, limit=1)
    database.advance(HOLD + S)

    one, two = await asyncio.gather(expire(store), expire(other))
    rest = await expire(store)

    closed = [each.report.claim.delivery_id for each in [*one, *two, *rest]]
    assert len(closed) == len(set(closed)) == 6
    assert [row["attempt_count"] for row in database.rows("deliveries")] == [1] * 6


async def test_worker_says_that_it_lives_and_works_and_goes(database: Database, store: Store) -> None:
    worker_id = await store.register("host-1", "0.1", 100)
    [new] = (await store.status()).workers

    await store.beat(worker_id, progressed=True)
    [working] = (await store.status()).workers
    await store.beat(worker_id, progressed=False)
    [waiting] = (await store.status()).workers
    await store.leave(worker_id)

    assert (new.id, new.name, new.version, new.concurrency) == (worker_id, "host-1", "0.1", 100)
    assert new.progressed_at is None
    assert working.progressed_at is not None
    assert waiting.progressed_at == working.progressed_at
    assert all(worker.stopped_at is not None for worker in (await store.status()).workers)
    assert database.one("select count(*) from sendonce_workers where stopped_at is not null") == 1


async def test_worker_has_an_id_of_its_own(store: Store) -> None:
    assert await store.register("a", "0.1", 1) != await store.register("a", "0.1", 1)


async def test_eldest_live_worker_that_listens_is_the_one_to_speak_for_the_database(
    database: Database, store: Store
) -> None:
    silent = await store.register("a", "0.1", 1)
    ids = [await store.register("a", "0.1", 1, is_listening=True) for _ in range(4)]

    async def speaking() -> list[int]:
        return [id for id in (silent, *ids) if await store.is_eldest(id)]

    assert await speaking() == ids[:1]
    await store.leave(ids[0])
    assert await speaking() == ids[1:2]
    seconds = timedelta(seconds=16)
    long_ago: object = seconds if isinstance(database, PostgresDatabase) else seconds // timedelta(microseconds=1)
    database.execute("update sendonce_workers set seen_at = seen_at - ? where id <= ?", long_ago, ids[1])
    assert await speaking() == ids[2:3]
    await store.beat(ids[1], progressed=False)

    assert await speaking() == ids[1:2]
