"""settle(): each result once, all or nothing, whatever the texts in it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from sendonce.domain.attempts import Verdict
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Fault, Outcome, Refused, Unknown
from sendonce.store.ports import Store
from sendonce.store.records import DeliveryRow
from tests.given import (
    HOLD,
    POLICY,
    decided,
    expire,
    given_due_deliveries,
    given_due_delivery,
    given_lease,
    report,
    result,
    settle_with,
)
from tests.store.databases import Database

S = timedelta(seconds=1)


async def delivery_of(store: Store, delivery_id: int) -> DeliveryRow:
    row = await store.delivery(delivery_id)
    assert row is not None
    return row


def wait_of(row: DeliveryRow) -> timedelta:
    """From its last change on."""
    assert row.next_attempt_at is not None
    return row.next_attempt_at - row.updated_at


async def test_W12_success_completes_and_is_counted_once(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)

    verdicts = await settle_with(store, await given_lease(store), Delivered("n-1", response="ok"))

    row = await delivery_of(store, delivery_id)
    assert verdicts == [Verdict.APPLIED]
    assert (row.status, row.attempt_count, row.notification_id) == (DeliveryState.COMPLETED, 1, "n-1")
    assert row.notified_at is not None
    assert (row.next_attempt_at, row.in_doubt, row.final_error_code) == (None, False, None)
    [attempt] = await store.attempts_of(delivery_id)
    assert (attempt.status, attempt.outcome, attempt.response) == ("Completed", "Delivered", "ok")
    assert attempt.notification_id == "n-1"
    assert attempt.finished_at is not None


async def test_W13_failures_are_counted_and_retried_until_the_limit_then_dead_lettered(
    database: Database, store: Store
) -> None:
    delivery_id = given_due_delivery(database)
    for number, delay in ((1, 10), (2, 20)):
        await settle_with(store, await given_lease(store), Failed(f"E{number}", "no"))

        row = await delivery_of(store, delivery_id)
        assert (row.status, row.attempt_count) == (DeliveryState.PENDING_RETRY, number)
        assert row.final_error_code == f"E{number}"
        assert delay * S - 5 * S < wait_of(row) <= delay * S
        assert await store.dead_letter_of(delivery_id) is None
        database.advance(wait_of(row) + S)

    await settle_with(store, await given_lease(store), Failed("E3", "no more"))

    row = await delivery_of(store, delivery_id)
    assert (row.status, row.attempt_count, row.next_attempt_at) == (DeliveryState.DEAD_LETTERED, 3, None)
    assert row.notified_at is None
    letter = await store.dead_letter_of(delivery_id)
    assert letter is not None
    assert (letter.reason, letter.error_code, letter.error_message) == (ReasonClass.EXHAUSTED, "E3", "no more")
    assert [attempt.error_code for attempt in await store.attempts_of(delivery_id)] == ["E1", "E2", "E3"]


async def test_W13_dead_lettered_and_its_dead_letter_come_in_one_transaction(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    lease = await given_lease(store)
    database.execute(
        "insert into sendonce_dead_letters (delivery_id, created_at, reason)"
        " select id, created_at, 'system' from sendonce_deliveries where id = ?",
        delivery_id,
    )

    with pytest.raises(Exception, match=r".+"):
        await settle_with(store, lease, Refused("410"))

    assert (await delivery_of(store, delivery_id)).status is DeliveryState.IN_PROGRESS
    [attempt] = await store.attempts_of(delivery_id)
    assert attempt.status == "Leased"


async def test_W14_success_keeps_the_last_error_as_history(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    await settle_with(store, await given_lease(store), Failed("503"))
    database.advance(11 * S)

    await settle_with(store, await given_lease(store), Delivered())

    row = await delivery_of(store, delivery_id)
    assert (row.status, row.attempt_count, row.final_error_code) == (DeliveryState.COMPLETED, 2, "503")


@pytest.mark.parametrize(
    ("outcome", "status", "in_doubt", "attempt_status"),
    [
        (Accepted("n-2"), DeliveryState.PENDING_RETRY, True, "Completed"),
        (Unknown("timeout"), DeliveryState.PENDING_RETRY, True, "Failed"),
        (Deferred("busy", again_in=5 * S), DeliveryState.PENDING_RETRY, False, "Failed"),
        (Refused("410"), DeliveryState.DEAD_LETTERED, False, "Failed"),
    ],
)
async def test_outcome_is_written_as_it_was_decided(
    database: Database, store: Store, outcome: Outcome, status: DeliveryState, in_doubt: bool, attempt_status: str
) -> None:
    delivery_id = given_due_delivery(database)

    await settle_with(store, await given_lease(store), outcome)

    row = await delivery_of(store, delivery_id)
    [attempt] = await store.attempts_of(delivery_id)
    assert (row.status, row.in_doubt) == (status, in_doubt)
    assert (attempt.status, attempt.outcome) == (attempt_status, type(outcome).__name__)


async def test_doubt_stays_until_it_is_cleared_and_the_next_claim_knows_it(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    await settle_with(store, await given_lease(store), Accepted("n-2"))
    database.advance(31 * S)

    lease = await given_lease(store)
    await settle_with(store, lease, Failed("503"))
    still = await delivery_of(store, delivery_id)
    database.advance(60 * S)
    again = await given_lease(store)
    await store.settle(decided([report(again, Failed("503"), cleared=True)], can_look_up=True))

    assert (lease.claims[0].in_doubt, lease.claims[0].notification_id) == (True, "n-2")
    assert still.in_doubt
    cleared = await delivery_of(store, delivery_id)
    assert not cleared.in_doubt
    assert cleared.status is DeliveryState.DEAD_LETTERED


async def test_W12_deferred_result_is_counted_and_raises_the_limit(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    for _ in range(5):
        await settle_with(store, await given_lease(store), Deferred("no_secret", fault=Fault.OURS))
        database.advance(3600 * S)

    lease = await given_lease(store)
    await settle_with(store, lease, Failed("503"))

    row = await delivery_of(store, delivery_id)
    assert (lease.claims[0].attempt_count, lease.claims[0].deferred_count) == (5, 5)
    assert (row.status, row.attempt_count, row.deferred_count) == (DeliveryState.PENDING_RETRY, 6, 5)


PUT_OFF, OWN = Deferred("http_503", again_in=timedelta(0)), Deferred("no_secret", fault=Fault.OURS)


@pytest.mark.parametrize(
    ("outcomes", "seconds"),
    [
        ([], None),
        ([OWN], None),
        ([PUT_OFF], 1000),
        ([PUT_OFF, PUT_OFF], 2000),
        ([PUT_OFF, OWN], 2000),
        ([PUT_OFF, OWN, PUT_OFF], 3000),
        ([PUT_OFF, Failed("503")], None),
        ([PUT_OFF, Unknown("timeout")], None),
        ([PUT_OFF, Failed("503"), PUT_OFF], 1000),
        ([OWN, PUT_OFF], 1000),
    ],
)
async def test_W12_it_is_kept_since_when_the_other_side_puts_it_off(
    database: Database, store: Store, outcomes: list[Outcome], seconds: int | None
) -> None:
    """Nothing but an attempt that ended otherwise ends it: not a worker that handed it back in between."""
    given_due_delivery(database)
    policy = replace(POLICY, max_attempts=9)
    for outcome in outcomes:
        await settle_with(store, await given_lease(store), outcome, policy)
        database.advance(1000 * S)

    [claim] = (await given_lease(store)).claims
    database.advance(HOLD + S)
    [result] = await expire(store, policy)

    assert claim.seconds_put_off == (None if seconds is None else pytest.approx(seconds, abs=5))
    # Who lost the lease is told the same.
    later = None if seconds is None else pytest.approx(seconds + 61, abs=5)
    assert result.report.claim.seconds_put_off == later


async def test_W12_receiver_that_always_asks_to_wait_comes_to_a_dead_letter(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    # 1000 + 2000 + 4000 s is as long as the policy tries, and longer than it has been put off at the fourth attempt.
    policy = replace(POLICY, first_delay=1000 * S, longest_delay=9000 * S)
    for delay in (1000, 2000, 3500):
        await settle_with(store, await given_lease(store), PUT_OFF, policy)
        assert wait_of(await delivery_of(store, delivery_id)) > (delay - 60) * S
        database.advance(delay * S)
    database.execute("update sendonce_deliveries set next_attempt_at = updated_at")
    await settle_with(store, await given_lease(store), PUT_OFF, policy)
    waiting = await delivery_of(store, delivery_id)
    database.advance(8000 * S)
    await settle_with(store, await given_lease(store), PUT_OFF, policy)

    row = await delivery_of(store, delivery_id)
    assert waiting.status is DeliveryState.PENDING_RETRY
    assert (row.status, row.attempt_count, row.deferred_count) == (DeliveryState.DEAD_LETTERED, 5, 5)
    [letter] = database.rows("dead_letters")
    assert (letter["reason"], letter["error_code"]) == ("exhausted", "http_503")


@pytest.mark.parametrize("outcome", [Delivered("n-1"), Failed("503"), Refused("410"), Unknown("timeout")])
async def test_W4_same_result_twice_changes_it_once(database: Database, store: Store, outcome: Outcome) -> None:
    given_due_delivery(database)
    lease = await given_lease(store)

    first = await settle_with(store, lease, outcome)
    before = database.rows("deliveries"), database.rows("attempts"), database.rows("dead_letters")
    second = await settle_with(store, lease, outcome)

    assert (first, second) == ([Verdict.APPLIED], [Verdict.ALREADY_APPLIED])
    assert (database.rows("deliveries"), database.rows("attempts"), database.rows("dead_letters")) == before
    assert before[0][0]["attempt_count"] == 1
    assert database.rows("findings") == []


@pytest.mark.parametrize("outcome", [Delivered("n-1"), Failed("503")])
async def test_W4_same_result_twice_in_one_batch_changes_it_once(
    database: Database, store: Store, outcome: Outcome
) -> None:
    given_due_deliveries(database, 2)
    lease = await given_lease(store)
    one, other = result(lease, outcome, of=0), result(lease, outcome, of=1)

    verdicts = await store.settle([one, other, one])

    assert verdicts == [Verdict.APPLIED, Verdict.APPLIED, Verdict.ALREADY_APPLIED]
    assert [row["attempt_count"] for row in database.rows("deliveries")] == [1, 1]
    assert database.rows("findings") == []


async def test_W4_commit_whose_answer_was_lost_is_settled_again_by_a_new_connection(
    database: Database, store: Store
) -> None:
    ids = given_due_deliveries(database, 3)
    lease = await given_lease(store)
    outcomes: list[Outcome] = [Delivered("a"), Failed("503"), Refused("1")]
    batch = [result(lease, outcome, of=n) for n, outcome in enumerate(outcomes)]
    lost = await database.open()
    await lost.settle(batch)  # committed, but the answer never came

    verdicts = await store.settle(batch)

    assert verdicts == [Verdict.ALREADY_APPLIED] * 3
    assert [(await delivery_of(store, each)).attempt_count for each in ids] == [1, 1, 1]
    assert database.one("select count(*) from sendonce_dead_letters") == 1


async def test_batch_gives_one_verdict_each_in_its_order(database: Database, store: Store) -> None:
    slow_id = given_due_delivery(database)
    slow = await given_lease(store)
    database.advance(HOLD + S)
    await expire(store)
    database.advance(31 * S)
    given_due_deliveries(database, 2)
    lease = await given_lease(store)
    places = {claim.delivery_id: place for place, claim in enumerate(lease.claims)}
    retry = places.pop(slow_id)
    one, known = places.values()
    await store.settle([result(lease, Delivered(), of=known)])

    verdicts = await store.settle(
        [
            result(lease, Delivered(), of=one),
            result(slow, Delivered("old")),
            result(lease, Delivered(), of=known),
            result(lease, Failed("x"), of=retry),
        ]
    )

    assert verdicts == [Verdict.APPLIED, Verdict.LATE, Verdict.ALREADY_APPLIED, Verdict.APPLIED]


async def test_settle_without_results_is_nothing(store: Store) -> None:
    assert await store.settle([]) == []


POISON: list[Outcome] = [
    Failed("E\0", "a\0b", response="\0"),
    Failed("E", "lone \ud800 surrogate", response="\udfff"),
    Failed("E", b"\xff\xfe\0bytes".decode("utf-8", "surrogateescape"), response=b"\xff".decode("latin-1")),
    Failed("E" * 1_000_000, "m" * 1_000_000, response="r" * 1_000_000),
    Delivered("n\0\ud800" * 100_000, response="\0" * 1_000_000),
    Accepted("n\0\ud800", response="\udc80"),
    Refused("\\u0000", "\\u0000 \\ud800 {}[]\"'%s%(x)s:name", response="\N{PILE OF POO}" * 2000),
    Unknown("\ud83d", "\ud83d", response="\ud83d"),
]


async def test_batch_of_500_is_settled_in_spite_of_bad_texts(database: Database, store: Store) -> None:
    database.publish_many(500)
    lease = await given_lease(store, limit=500)
    outcomes: list[Outcome] = [Delivered("fine")] * 500
    for place, poison in enumerate(POISON):
        outcomes[place * 60 + 7] = poison

    verdicts = await store.settle([result(lease, outcome, POLICY, of=n) for n, outcome in enumerate(outcomes)])

    assert verdicts == [Verdict.APPLIED] * 500
    assert database.one("select count(*) from sendonce_attempts where outcome is not null") == 500
    assert database.one("select count(*) from sendonce_deliveries where status = 'Completed'") == 493
    assert database.one("select max(length(error_message)) from sendonce_attempts") <= 500
    assert database.one("select max(length(response)) from sendonce_attempts") <= 1000


@pytest.mark.parametrize("place", range(len(POISON)))
async def test_result_with_a_bad_text_stays_readable_otherwise(database: Database, store: Store, place: int) -> None:
    delivery_id = given_due_delivery(database)
    lease = await given_lease(store)

    first = await settle_with(store, lease, POISON[place])
    second = await settle_with(store, lease, POISON[place])

    [attempt] = await store.attempts_of(delivery_id)
    assert (first, second) == ([Verdict.APPLIED], [Verdict.ALREADY_APPLIED])
    assert attempt.outcome == type(POISON[place]).__name__
    assert attempt.response


@pytest.mark.parametrize("chosen", [None, "hold"])
@pytest.mark.parametrize("outcome", [Unknown("timeout"), Accepted("m-1")], ids=["unknown", "accepted"])
async def test_requeue_even_if_sent_does_not_cover_a_later_send(
    database: Database, store: Store, outcome: Outcome, chosen: str | None
) -> None:
    first = given_due_delivery(database, if_unsure=chosen)
    await settle_with(store, await given_lease(store), Unknown("timeout"), replace(POLICY, max_attempts=1))
    [again] = (await store.open_generations([first], kind="requeue", operator="ada", reason="x")).ids
    assert database.one("select if_unsure from sendonce_deliveries where id = ?", again) == "resend"
    database.advance(POLICY.doubt_wait * 2)

    await settle_with(store, await given_lease(store), outcome, can_look_up=True)

    assert database.one("select if_unsure from sendonce_deliveries where id = ?", again) == chosen
