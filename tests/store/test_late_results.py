"""Results that come after their lease was lost: evidence, never a second decision."""

from datetime import timedelta

import pytest

from sendonce.domain.attempts import Lease, Verdict
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.outcomes import Delivered, Failed, Outcome, Refused, Unknown
from sendonce.store.ports import Store
from tests.given import HOLD, WORKER, expire, given_due_delivery, given_lease, settle_with
from tests.store.databases import Database

S = timedelta(seconds=1)


async def lost_lease(database: Database, store: Store) -> Lease:
    """A lease whose holder stalled for so long that the attempt was closed as Unknown."""
    lease = await given_lease(store)
    database.advance(HOLD + S)
    assert len(await expire(store)) == 1
    return lease


@pytest.mark.parametrize("outcome", [Delivered("old"), Failed("503"), Refused("410"), Unknown("timeout")])
async def test_late_worker_cannot_settle_what_another_one_has_claimed(
    database: Database, store: Store, outcome: Outcome
) -> None:
    delivery_id = given_due_delivery(database)
    old = await lost_lease(database, store)
    database.advance(31 * S)
    new = await given_lease(store)

    before = database.rows("deliveries"), database.rows("attempts"), database.rows("leases")
    late = await settle_with(store, old, outcome)
    after = database.rows("deliveries"), database.rows("attempts"), database.rows("leases")
    good = await settle_with(store, new, Delivered("new"))

    assert (late, good) == ([Verdict.LATE], [Verdict.APPLIED])
    assert after == before
    row = await store.delivery(delivery_id)
    assert row is not None
    assert (row.status, row.notification_id, row.attempt_count) == (DeliveryState.COMPLETED, "new", 2)
    [finding] = await store.findings_of(delivery_id)
    assert (finding.attempt, finding.outcome) == (1, type(outcome).__name__)


async def test_result_under_another_lease_cannot_settle_the_same_attempt(database: Database, store: Store) -> None:
    """After a restore the same attempt may be made again, while somebody still has it from before."""
    given_due_delivery(database)
    lease = await given_lease(store)
    before = database.rows("deliveries"), database.rows("attempts")

    late = await settle_with(store, lease._replace(id=lease.id + 1), Delivered("old"))
    after = database.rows("deliveries"), database.rows("attempts")
    good = await settle_with(store, lease, Delivered("new"))

    assert (late, good) == ([Verdict.LATE], [Verdict.APPLIED])
    assert after == before
    assert [row["notification_id"] for row in database.rows("deliveries")] == ["new"]


async def test_late_result_delivered_completes_a_waiting_delivery_without_sending(
    database: Database, store: Store
) -> None:
    delivery_id = given_due_delivery(database)
    old = await lost_lease(database, store)

    late = await settle_with(store, old, Delivered("proof"))
    waiting = await store.delivery(delivery_id)
    [claim] = (await given_lease(store)).claims

    assert late == [Verdict.LATE]
    assert waiting is not None
    assert (waiting.status, waiting.attempt_count) == (DeliveryState.PENDING_RETRY, 1)
    assert waiting.proven_at is not None
    assert claim.is_proven
    assert claim.notification_id == "proof"


@pytest.mark.parametrize("outcome", [Failed("503"), Refused("410"), Unknown("timeout")])
async def test_late_result_that_proves_nothing_leaves_a_waiting_delivery_alone(
    database: Database, store: Store, outcome: Outcome
) -> None:
    delivery_id = given_due_delivery(database)
    old = await lost_lease(database, store)
    before = database.rows("deliveries"), database.rows("attempts")

    late = await settle_with(store, old, outcome)

    assert late == [Verdict.LATE]
    assert (database.rows("deliveries"), database.rows("attempts")) == before
    assert [finding.outcome for finding in await store.findings_of(delivery_id)] == [type(outcome).__name__]


async def test_W15_late_result_delivered_after_the_end_is_a_finding_and_changes_nothing(
    database: Database, store: Store
) -> None:
    delivery_id = given_due_delivery(database)
    old = await lost_lease(database, store)
    database.advance(31 * S)
    await settle_with(store, await given_lease(store), Delivered("new"))
    before = database.rows("deliveries"), database.rows("attempts")

    late = await settle_with(store, old, Delivered("old"))

    assert late == [Verdict.LATE]
    assert (database.rows("deliveries"), database.rows("attempts")) == before
    [finding] = await store.findings_of(delivery_id)
    assert (finding.outcome, finding.notification_id) == ("Delivered", "old")


async def test_late_result_delivered_for_a_cancelled_delivery_is_a_finding(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    old = await lost_lease(database, store)
    await store.cancel([delivery_id], operator="ada", reason="wrong")

    late = await settle_with(store, old, Delivered("old"))

    assert late == [Verdict.LATE]
    assert len(await store.findings_of(delivery_id)) == 1
    row = await store.delivery(delivery_id)
    assert row is not None
    assert row.status is DeliveryState.DEAD_LETTERED


async def test_late_result_twice_is_one_finding(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    old = await lost_lease(database, store)

    verdicts = await settle_with(store, old, Delivered("x")) + await settle_with(store, old, Delivered("x"))

    assert verdicts == [Verdict.LATE, Verdict.LATE]
    assert len(await store.findings_of(delivery_id)) == 1


async def test_late_result_with_bad_texts_is_kept_too(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    old = await lost_lease(database, store)

    late = await settle_with(store, old, Failed("\0\ud800" * 100_000, "\0"))

    assert late == [Verdict.LATE]
    assert len(await store.findings_of(delivery_id)) == 1


async def test_result_for_an_attempt_that_has_ended_is_late(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    lease = await given_lease(store)
    await settle_with(store, lease, Failed("503"))

    late = await settle_with(store, lease, Refused("410"))

    assert late == [Verdict.LATE]
    row = await store.delivery(delivery_id)
    assert row is not None
    assert (row.status, row.attempt_count) == (DeliveryState.PENDING_RETRY, 1)


async def test_result_for_a_delivery_nobody_knows_is_late(database: Database, store: Store) -> None:
    given_due_delivery(database)
    lease = await given_lease(store)
    stranger = lease._replace(claims=(lease.claims[0]._replace(delivery_id=10**9),))

    assert await settle_with(store, stranger, Delivered()) == [Verdict.LATE]


async def test_late_result_delivered_completes_a_parked_delivery_when_it_is_let_go(
    database: Database, store: Store
) -> None:
    delivery_id = given_due_delivery(database)
    old = await lost_lease(database, store)
    await store.stop("channel", "null", operator="ada", reason=None)
    database.advance(timedelta(hours=1))
    assert (await store.start(WORKER, 10, HOLD)).parked == 1

    late = await settle_with(store, old, Delivered("proof"))
    held = await store.delivery(delivery_id)
    await store.resume("channel", "null", operator="ada")
    [claim] = (await given_lease(store)).claims

    assert late == [Verdict.LATE]
    assert held is not None
    assert (held.next_attempt_at, held.parked_on) == (None, "stop:channel:null")
    assert (claim.is_proven, claim.notification_id) == (True, "proof")
