"""What a person may do: requeue, discard, cancel; and that each is in the log."""

from datetime import timedelta

import pytest

from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Delivered, Failed, Unknown
from sendonce.domain.policies import IfUnsure, Policy
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from tests.given import (
    given_dead_letter,
    given_delivery_in,
    given_due_deliveries,
    given_due_delivery,
    given_lease,
    settle_with,
)
from tests.store.databases import Database

S = timedelta(seconds=1)


async def test_W16_requeue_opens_the_next_generation_and_leaves_the_old_row_as_it_is(
    database: Database, store: Store
) -> None:
    old_id = await given_dead_letter(database, store)
    [before] = database.rows("deliveries")
    attempts = database.rows("attempts")

    acted = await store.open_generations([old_id], kind="requeue", operator="ada", reason="receiver is back")

    [new_id] = acted.ids
    [old, _new] = database.rows("deliveries")
    assert old == before
    assert database.rows("attempts") == attempts
    row = await store.delivery(new_id)
    assert row is not None
    assert (row.status, row.attempt_count, row.deferred_count) == (DeliveryState.PENDING, 0, 0)
    assert (row.generation, row.event_id, row.destination) == (1, before["event_id"], before["destination"])
    assert row.next_attempt_at is not None
    assert row.next_attempt_at <= database.now()
    assert [claim.delivery_id for claim in (await given_lease(store)).claims] == [new_id]


async def test_requeue_closes_the_dead_letter(database: Database, store: Store) -> None:
    delivery_id = await given_dead_letter(database, store)

    await store.open_generations([delivery_id], kind="requeue", operator="ada", reason="again")

    letter = await store.dead_letter_of(delivery_id)
    assert letter is not None
    assert (letter.closed_as, letter.closed_by) == ("requeued", "ada")
    assert letter.closed_at is not None
    assert not await store.dead_letters(Filter())


async def test_requeue_keeps_the_order_given(database: Database, store: Store) -> None:
    ids = [await given_dead_letter(database, store) for _ in range(3)]
    wanted = [ids[2], ids[0], ids[1]]

    acted = await store.open_generations(wanted, kind="requeue", operator="ada", reason="again")

    rows = [await store.delivery(each) for each in acted.ids]
    olds = [await store.delivery(each) for each in wanted]
    assert [row.event_id for row in rows if row] == [old.event_id for old in olds if old]
    assert len(set(acted.ids)) == 3


async def test_requeue_a_second_time_is_refused(database: Database, store: Store) -> None:
    delivery_id = await given_dead_letter(database, store)
    await store.open_generations([delivery_id], kind="requeue", operator="ada", reason="again")
    before = database.rows("deliveries"), database.rows("operations")

    with pytest.raises(NotAllowed):
        await store.open_generations([delivery_id], kind="requeue", operator="ada", reason="again")

    assert (database.rows("deliveries"), database.rows("operations")) == before


@pytest.mark.parametrize("state", [state for state in DeliveryState if not state.is_final])
async def test_open_delivery_cannot_be_requeued_and_nothing_of_the_batch_is_written(
    database: Database, store: Store, state: DeliveryState
) -> None:
    finished = await given_dead_letter(database, store)
    delivery_id = await given_delivery_in(database, store, state)
    tables = ("deliveries", "dead_letters", "operations")
    before = {table: database.rows(table) for table in tables}

    with pytest.raises(NotAllowed):
        await store.open_generations([finished, delivery_id], kind="requeue", operator="ada", reason="again")

    assert {table: database.rows(table) for table in tables} == before


async def test_requeue_of_what_does_not_exist_is_refused(database: Database, store: Store) -> None:
    finished = await given_dead_letter(database, store)

    with pytest.raises(NotFound):
        await store.open_generations([finished, 10**9], kind="requeue", operator="ada", reason="again")

    assert len(database.rows("deliveries")) == 1


async def test_completed_delivery_can_be_replayed_again_and_again(database: Database, store: Store) -> None:
    delivery_id = await given_delivery_in(database, store, DeliveryState.COMPLETED)
    for generation in (1, 2, 3):
        acted = await store.open_generations([delivery_id], kind="replay", operator="ada", reason="lost theirs")
        [delivery_id] = acted.ids
        lease = await given_lease(store)
        await settle_with(store, lease, Delivered())

        assert lease.claims[0].generation == generation

    assert [row["status"] for row in database.rows("deliveries")] == ["Completed"] * 4


async def test_doubt_goes_along_into_the_next_generation(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database, if_unsure="hold")
    await settle_with(store, await given_lease(store), Unknown("timeout"), Policy(if_unsure=IfUnsure.HOLD))

    acted = await store.open_generations([delivery_id], kind="requeue", operator="ada", reason="again")

    row = await store.delivery(acted.ids[0])
    assert row is not None
    assert row.in_doubt


async def test_requeue_in_doubt_is_not_held_again(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database, if_unsure="hold")
    held = Policy(if_unsure=IfUnsure.HOLD, doubt_wait=timedelta(0))
    await settle_with(store, await given_lease(store), Unknown("timeout"), held)
    acted = await store.open_generations([delivery_id], kind="requeue", operator="ada", reason="again")

    await settle_with(store, await given_lease(store), Failed("refused_connection"), held)

    row = await store.delivery(acted.ids[0])
    assert row is not None
    assert (row.status, row.in_doubt) == (DeliveryState.PENDING_RETRY, True)


async def test_discarded_dead_letter_is_closed_and_its_delivery_stays(database: Database, store: Store) -> None:
    delivery_id = await given_dead_letter(database, store)
    before = database.rows("deliveries")
    [letter] = await store.dead_letters(Filter())

    first = await store.discard([letter.id], operator="ada", reason="not needed")
    with pytest.raises(NotAllowed, match="closed by another person"):
        await store.discard([letter.id], operator="bob", reason="not needed")

    assert first.ids == (letter.id,)
    assert database.rows("deliveries") == before
    closed = await store.dead_letter_of(delivery_id)
    assert closed is not None
    assert (closed.closed_as, closed.closed_by) == ("discarded", "ada")
    assert not await store.dead_letters(Filter())


@pytest.mark.parametrize("state", [DeliveryState.PENDING, DeliveryState.PENDING_RETRY])
async def test_cancel_takes_what_is_not_being_sent(database: Database, store: Store, state: DeliveryState) -> None:
    delivery_id = await given_delivery_in(database, store, state)

    acted = await store.cancel([delivery_id], operator="ada", reason="wrong recipient")

    row = await store.delivery(delivery_id)
    letter = await store.dead_letter_of(delivery_id)
    assert acted.ids == (delivery_id,)
    assert row is not None
    assert (row.status, row.next_attempt_at) == (DeliveryState.DEAD_LETTERED, None)
    assert letter is not None
    assert letter.reason is ReasonClass.CANCELLED
    database.advance(timedelta(hours=1))
    assert await store.is_idle()


@pytest.mark.parametrize(
    ("state", "code"), [(DeliveryState.PENDING, "cancelled"), (DeliveryState.PENDING_RETRY, "503")]
)
async def test_cancel_keeps_what_went_wrong_before(
    database: Database, store: Store, state: DeliveryState, code: str
) -> None:
    delivery_id = await given_delivery_in(database, store, state)

    await store.cancel([delivery_id], operator="ada", reason="enough")

    [delivery], [letter] = database.rows("deliveries"), database.rows("dead_letters")
    assert (delivery["final_error_code"], letter["error_code"]) == (code, "cancelled")


@pytest.mark.parametrize("state", [DeliveryState.IN_PROGRESS, DeliveryState.COMPLETED, DeliveryState.DEAD_LETTERED])
async def test_cancel_leaves_what_is_being_sent_or_finished(
    database: Database, store: Store, state: DeliveryState
) -> None:
    delivery_id = await given_delivery_in(database, store, state)
    before = database.rows("deliveries"), database.rows("dead_letters")

    acted = await store.cancel([delivery_id, 10**9], operator="ada", reason="wrong recipient")

    assert acted.ids == ()
    assert (database.rows("deliveries"), database.rows("dead_letters")) == before


async def test_doubt_is_kept_when_it_is_cancelled(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    await settle_with(store, await given_lease(store), Unknown("timeout"))

    await store.cancel([delivery_id], operator="ada", reason="enough")

    letter = await store.dead_letter_of(delivery_id)
    assert letter is not None
    assert (letter.reason, letter.in_doubt) == (ReasonClass.CANCELLED, True)


async def test_cancel_takes_a_parked_delivery(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    await store.stop("channel", "null", operator="ada", reason=None)
    await store.start(1, 10, 60 * S)

    acted = await store.cancel([delivery_id], operator="ada", reason="wrong")
    await store.resume("channel", "null", operator="ada")

    assert acted.ids == (delivery_id,)
    assert (await store.start(1, 10, 60 * S)).lease is None


async def test_action_is_in_the_log_with_who_and_why(database: Database, store: Store) -> None:
    await given_dead_letter(database, store)
    [letter] = await store.dead_letters(Filter())
    dead = await given_dead_letter(database, store)
    [pending] = given_due_deliveries(database, 1)

    acts = [
        await store.discard([letter.id], operator="ada", reason="r-discard"),
        await store.open_generations([dead], kind="requeue", operator="ada", reason="r-requeue"),
        await store.cancel([pending], operator="ada", reason="r-cancel"),
        await store.stop("tenant", "acme", operator="ada", reason="r-stop"),
        await store.resume("tenant", "acme", operator="ada"),
    ]
    subscription_id = await store.add_subscription(
        tenant="", types=["x"], destination="null:x", policy=None, description=None, operator="ada"
    )
    acts += [
        await store.set_subscription_state(subscription_id, state, operator="ada", reason=f"r-{state}")
        for state in ("paused", "active", "disabled", "removed")
    ]

    rows = {row["id"]: row for row in database.rows("operations")}
    assert len(rows) == len(acts) + 1
    assert all(row["operator"] == "ada" for row in rows.values())
    assert len({act.operation_id for act in acts}) == len(acts)
    reasons = [rows[act.operation_id]["reason"] for act in acts]
    assert reasons[:4] == ["r-discard", "r-requeue", "r-cancel", "r-stop"]
    assert reasons[5:] == ["r-paused", "r-active", "r-disabled", "r-removed"]
    assert rows[acts[2].operation_id]["affected"] == 1
    assert len({row["kind"] for row in rows.values()}) >= 6


async def test_log_entry_is_written_also_when_nothing_was_left_to_do(database: Database, store: Store) -> None:
    acted = await store.cancel([10**9], operator="ada", reason="typo")

    [row] = database.rows("operations")
    assert (row["id"], row["affected"], row["kind"]) == (acted.operation_id, 0, "cancel")


async def test_requeued_delivery_that_failed_before_starts_its_backoff_afresh(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    for _ in range(3):
        await settle_with(store, await given_lease(store), Failed("503"))
        database.advance(60 * S)
    acted = await store.open_generations([delivery_id], kind="requeue", operator="ada", reason="again")

    await settle_with(store, await given_lease(store), Failed("503"))

    row = await store.delivery(acted.ids[0])
    assert row is not None
    assert (row.status, row.attempt_count) == (DeliveryState.PENDING_RETRY, 1)
    assert row.next_attempt_at is not None
    assert row.next_attempt_at - database.now() <= 10 * S
