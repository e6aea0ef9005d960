"""Deliveries in doubt, a person's attestation, findings, and the walk over what is marked sent; on both databases."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

import pytest

from sendonce.admin import reconcile
from sendonce.domain.answers import NOT_FOUND
from sendonce.domain.attempts import Lease, Verdict
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.outcomes import Delivered, Failed, Unknown
from sendonce.domain.policies import Policy
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from tests.given import (
    HOLD,
    POLICY,
    WORKER,
    decided,
    expire,
    given_dead_letter,
    given_delivery_in,
    given_due_deliveries,
    given_due_delivery,
    given_lease,
    report,
    result,
    settle_with,
)
from tests.store.databases import REFUSED, Database, SqliteDatabase

LONG_AGO = timedelta(days=400)


AT_ONCE = replace(POLICY, doubt_wait=timedelta(0))


async def given_in_doubt(
    database: Database, store: Store, amount: int = 1, *, to: str = "null:a", policy: Policy = AT_ONCE
) -> list[int]:
    """Deliveries whose attempts ended without an answer, waiting to be asked about. Nothing else may be due."""
    ids = given_due_deliveries(database, amount, to=to)
    lease = await given_lease(store, limit=amount + 1)
    await settle_with(store, lease, Unknown("timeout"), policy, can_look_up=True)
    await store.release([lease.id])
    return ids


async def doubtful(store: Store, *, limit: int = 10, after: int = 0) -> list[int]:
    """The ids that are leased to be asked about; the lease is kept."""
    started = await store.start_doubtful(WORKER, limit, HOLD, after=after)
    return [] if started.lease is None else [claim.delivery_id for claim in started.lease.claims]


async def doubtful_lease(store: Store) -> Lease:
    started = await store.start_doubtful(WORKER, 10, HOLD, after=0)
    assert started.lease is not None
    return started.lease


async def test_delivery_put_in_doubt_is_not_due_before_its_wait_is_over(database: Database, store: Store) -> None:
    given_due_delivery(database)
    await store.doubt(0, 10, wait=timedelta(minutes=5))

    assert (await store.start(WORKER, 10, HOLD)).lease is None
    database.advance(timedelta(minutes=6))
    assert [claim.in_doubt for claim in (await given_lease(store)).claims] == [True]


async def test_R11_what_may_have_been_sent_can_be_leased_before_it_is_due(database: Database, store: Store) -> None:
    ids = await given_in_doubt(database, store, 3)
    sure = given_due_delivery(database)

    lease = await doubtful_lease(store)

    assert [claim.delivery_id for claim in lease.claims] == ids
    assert all(claim.in_doubt and claim.attempt == 2 for claim in lease.claims)
    assert {row.status for row in [await store.delivery(each) for each in ids] if row} == {DeliveryState.IN_PROGRESS}
    assert [claim.delivery_id for claim in (await given_lease(store)).claims] == [sure]


async def test_delivery_is_leased_once_and_a_walk_goes_on_from_an_id(database: Database, store: Store) -> None:
    ids = await given_in_doubt(database, store, 5)
    other = await database.open()

    assert await doubtful(store, limit=2) == ids[:2]
    assert await doubtful(other, limit=2, after=ids[2]) == ids[3:]
    assert await doubtful(other) == [ids[2]]
    assert await doubtful(store) == []


async def test_doubt_that_comes_up_while_it_is_being_sent_outlives_what_was_claimed_without_it(
    database: Database, store: Store
) -> None:
    """A worker that was not stopped before `doubt`: its "connection refused" says nothing of what came before."""
    failing, arriving = given_due_deliveries(database, 2)
    lease = await given_lease(store)
    assert await store.doubt(0, 10, wait=timedelta(0)) == (2, arriving)
    await store.settle([result(lease, Failed("connection_refused")), result(lease, Delivered("n-1"), of=1)])

    rows = [await store.delivery(each) for each in (failing, arriving)]
    assert [(each.status, each.in_doubt) for each in rows if each] == [("PendingRetry", True), ("Completed", False)]


async def test_doubt_that_comes_up_while_it_is_being_sent_puts_off_its_next_attempt_too(
    database: Database, store: Store
) -> None:
    delivery_id = given_due_delivery(database)
    lease = await given_lease(store)
    await store.doubt(0, 10, wait=timedelta(hours=1))
    await store.settle([result(lease, Failed("connection_refused"))])

    row = await store.delivery(delivery_id)
    assert row is not None
    assert row.next_attempt_at is not None
    assert row.next_attempt_at - database.now() > timedelta(minutes=55)


async def test_delivery_ended_in_doubt_is_not_asked_about(database: Database, store: Store) -> None:
    given_due_delivery(database, if_unsure="hold")
    await settle_with(store, await given_lease(store), Unknown("timeout"), AT_ONCE)

    assert await doubtful(store) == []


@pytest.mark.parametrize("room", ["destination:null:a", "place:null", "rate:1"])
async def test_parked_delivery_in_doubt_is_asked_about(database: Database, store: Store, room: str) -> None:
    ids = await given_in_doubt(database, store, 2)
    database.execute("update sendonce_deliveries set next_attempt_at = null, parked_on = ?", room)

    assert await doubtful(store) == ids
    assert database.rows("deliveries")[0]["parked_on"] is None


async def test_breaker_or_a_rate_holds_no_question_back(database: Database, store: Store) -> None:
    added = await store.add_subscription(
        tenant="", types=["order.*"], destination="https://a.test/x", policy=None, description=None, operator="ada",
        rate=0.1,
    )  # fmt: skip
    event_id = database.publish("order.paid", {}, key="o-1", to=None)
    database.execute("update sendonce_subscriptions set rate = null")
    await settle_with(store, await given_lease(store), Unknown("timeout"), AT_ONCE, can_look_up=True)
    database.execute("update sendonce_subscriptions set rate = 0.1")
    await store.trip(f"destination:subscription:{added}", pause=timedelta(hours=1), code="timeout")
    await store.trip("place:a.test", pause=timedelta(hours=1), code="timeout")

    assert await doubtful(store) == [
        database.one("select id from sendonce_deliveries where event_id = ?", event_id),
    ]


@pytest.mark.parametrize(("scope", "value"), [("all", ""), ("channel", "null"), ("destination", "null:a")])
async def test_stopped_delivery_in_doubt_is_not_asked_about(
    database: Database, store: Store, scope: str, value: str
) -> None:
    await given_in_doubt(database, store, 2)
    await store.stop(scope, value, operator="ada", reason=None)

    assert await doubtful(store) == []

    await store.resume(scope, value, operator="ada")
    assert len(await doubtful(store)) == 2


async def test_delivery_behind_stopped_ones_is_found(database: Database, store: Store) -> None:
    await given_in_doubt(database, store, 5, to="null:a")
    behind = await given_in_doubt(database, store, 1, to="null:b")
    await store.stop("destination", "null:a", operator="ada", reason=None)

    assert await doubtful(store, limit=2) == behind


async def test_delivery_parked_by_a_pause_or_a_stop_is_not_asked_about(database: Database, store: Store) -> None:
    await given_in_doubt(database, store, 2)
    for parked_on in ("stop:channel:null", "subscription:7"):
        database.execute("update sendonce_deliveries set next_attempt_at = null, parked_on = ?", parked_on)

        assert await doubtful(store) == []


async def test_paused_subscription_is_not_asked_about(database: Database, store: Store) -> None:
    added = await store.add_subscription(
        tenant="", types=["order.*"], destination="null:b", policy=None, description=None, operator="ada"
    )
    database.publish("order.paid", {}, key="o-1", to=None)
    await settle_with(store, await given_lease(store), Unknown("timeout"), AT_ONCE, can_look_up=True)
    await store.set_subscription_state(added, "paused", operator="ada", reason=None)

    assert await doubtful(store) == []


async def test_R16_look_up_that_finds_it_completes_it_with_the_providers_id_and_time(
    database: Database, store: Store
) -> None:
    [delivery_id] = await given_in_doubt(database, store)
    lease = await doubtful_lease(store)
    sent_at = database.now() - timedelta(hours=1)

    assert await settle_with(store, lease, Delivered("n-7", sent_at=sent_at)) == [Verdict.APPLIED]

    row = await store.delivery(delivery_id)
    assert row is not None
    assert (row.status, row.in_doubt, row.notification_id) == (DeliveryState.COMPLETED, False, "n-7")
    assert row.notified_at is not None
    assert abs(row.notified_at - sent_at) < timedelta(seconds=1)


async def test_R11_not_found_clears_the_doubt_and_makes_it_due(database: Database, store: Store) -> None:
    [delivery_id] = await given_in_doubt(database, store)
    lease = await doubtful_lease(store)
    await store.settle(decided([report(lease, NOT_FOUND, cleared=True)], POLICY, can_look_up=True))

    row = await store.delivery(delivery_id)
    assert row is not None
    assert (row.status, row.in_doubt, row.deferred_count) == (DeliveryState.PENDING_RETRY, False, 1)
    assert [claim.delivery_id for claim in (await given_lease(store)).claims] == [delivery_id]


async def test_doubt_is_put_on_everything_open_in_steps(database: Database, store: Store) -> None:
    done = await given_delivery_in(database, store, DeliveryState.COMPLETED)
    dead = await given_dead_letter(database, store)
    retrying = await given_delivery_in(database, store, DeliveryState.PENDING_RETRY)
    being_sent = await given_delivery_in(database, store, DeliveryState.IN_PROGRESS)
    pending = await given_delivery_in(database, store, DeliveryState.PENDING)

    steps, after = [], 0
    while (step := await store.doubt(after, 2, wait=timedelta(0)))[1] is not None:
        steps.append(step)
        after = step[1]

    assert steps == [(0, dead), (2, being_sent), (1, pending)]
    in_doubt = {row["id"] for row in database.rows("deliveries") if row["in_doubt"]}
    assert in_doubt == {retrying, being_sent, pending}
    assert (await store.status()).in_doubt == 3
    assert (await store.delivery(done)) is not None


@pytest.mark.parametrize("chosen", [None, "hold", "resend"])
async def test_requeue_even_if_sent_does_not_cover_a_later_doubt(
    database: Database, store: Store, chosen: str | None
) -> None:
    first = given_due_delivery(database, if_unsure=chosen)
    await settle_with(store, await given_lease(store), Unknown("timeout"), replace(POLICY, max_attempts=1))
    [again] = (await store.open_generations([first], kind="requeue", operator="ada", reason="x")).ids
    row = await store.delivery(again)
    assert row is not None
    assert row.if_unsure == "resend"

    assert (await store.doubt(0, 10, wait=timedelta(0)))[0] == 1

    row = await store.delivery(again)
    assert row is not None
    assert (row.in_doubt, row.if_unsure) == (True, chosen)


async def test_doubt_that_was_interrupted_is_logged_so_far(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "STEP", 2)
    given_due_deliveries(database, 5)

    steps = reconcile.open_in_doubt(store, operator="ada", reason="restored", wait=timedelta(0))
    async with aclosing(cast(AsyncGenerator[reconcile.Doubted, None], steps)):
        await anext(steps)

    [logged] = database.rows("operations")
    assert (logged["kind"], logged["reason"], logged["affected"]) == ("doubt", "restored", 2)


async def test_doubt_opened_twice_is_left_alone_for_the_longer_time(database: Database, store: Store) -> None:
    given_due_deliveries(database, 3)

    assert (await store.doubt(0, 10, wait=timedelta(hours=2)))[0] == 3
    assert (await store.doubt(0, 10, wait=timedelta(hours=1)))[0] == 3

    database.advance(timedelta(minutes=90))
    assert (await store.start(WORKER, 10, HOLD)).lease is None
    assert await doubtful(store) == []
    database.advance(timedelta(minutes=31))
    assert len((await given_lease(store)).claims) == 3


@pytest.mark.parametrize("room", ["destination:null:a", "place:null", "rate:1"])
async def test_parked_delivery_put_in_doubt_is_left_alone_too(database: Database, store: Store, room: str) -> None:
    given_due_deliveries(database, 2, to="null:a")
    database.execute("update sendonce_deliveries set next_attempt_at = null, parked_on = ?", room)

    await store.doubt(0, 10, wait=timedelta(minutes=5))

    assert (await store.start_waiting(WORKER, {room: 2}, HOLD)).lease is None
    assert (await store.start(WORKER, 10, HOLD)).lease is None
    assert await doubtful(store) == []
    assert (await store.left_alone())[0] == 2
    database.advance(timedelta(minutes=5, seconds=1))
    assert [claim.in_doubt for claim in (await given_lease(store)).claims] == [True, True]


@pytest.mark.parametrize("probes", [{}, {"place:null": 0.0}], ids=["room", "probe"])
async def test_parked_queue_lets_nothing_out_before_its_moment_whoever_parked_it(
    database: Database, store: Store, probes: dict[str, float]
) -> None:
    [one] = await given_in_doubt(database, store, policy=replace(POLICY, doubt_wait=timedelta(minutes=5)))
    database.execute("update sendonce_deliveries set next_attempt_at = null, parked_on = 'place:null'")

    assert (await store.start_waiting(WORKER, {"place:null": 1}, HOLD, probes=probes)).lease is None
    assert await doubtful(store) == []
    database.advance(timedelta(minutes=5, seconds=1))
    started = await store.start_waiting(WORKER, {"place:null": 1}, HOLD, probes=probes)
    assert started.lease is not None
    assert [claim.delivery_id for claim in started.lease.claims] == [one]


async def test_probe_is_not_made_with_what_is_left_alone(database: Database, store: Store) -> None:
    [left_alone] = await given_in_doubt(database, store, policy=replace(POLICY, doubt_wait=timedelta(minutes=5)))
    free = given_due_delivery(database)
    database.execute("update sendonce_deliveries set next_attempt_at = null, parked_on = 'place:null'")
    probed = []

    for spread in (0.0, 0.0, 0.99):
        started = await store.start_waiting(WORKER, {"place:null": 1}, HOLD, probes={"place:null": spread})
        probed += [claim.delivery_id for claim in started.lease.claims] if started.lease else []

    assert probed == [free]
    database.advance(timedelta(minutes=5, seconds=1))
    started = await store.start_waiting(WORKER, {"place:null": 1}, HOLD, probes={"place:null": 0.0})
    assert started.lease is not None
    assert [claim.delivery_id for claim in started.lease.claims] == [left_alone]


@pytest.mark.parametrize(("scope", "value"), [("channel", "null"), ("destination", "null:a"), ("tenant", "")])
async def test_delivery_resumed_is_left_alone_until_its_moment(
    database: Database, store: Store, scope: str, value: str
) -> None:
    given_due_delivery(database, to="null:a")
    await store.stop(scope, value, operator="ada", reason=None)
    assert (await store.start(WORKER, 10, HOLD)).parked == 1
    await store.doubt(0, 10, wait=timedelta(minutes=5))
    [row] = database.rows("deliveries")
    assert row["parked_on"] == f"stop:{scope}:{value}"

    await store.resume(scope, value, operator="ada")

    assert (await store.start(WORKER, 10, HOLD)).lease is None
    assert await doubtful(store) == []
    database.advance(timedelta(minutes=5, seconds=1))
    assert len((await given_lease(store)).claims) == 1


async def test_delivery_being_sent_is_left_alone_for_the_wait_after_its_lease(database: Database, store: Store) -> None:
    """The rows that were in progress in a backup: the wait that a person said counts, not only `doubt_wait`."""
    delivery_id = await given_delivery_in(database, store, DeliveryState.IN_PROGRESS)

    await store.doubt(0, 10, wait=timedelta(hours=3))
    database.advance(HOLD + timedelta(seconds=1))
    assert len(await expire(store, AT_ONCE)) == 1

    row = await store.delivery(delivery_id)
    assert row is not None
    assert row.next_attempt_at == row.not_before
    assert row.next_attempt_at is not None
    assert row.next_attempt_at - database.now() > timedelta(hours=2)
    assert await doubtful(store) == []


async def test_scheduled_delivery_stays_scheduled_when_put_in_doubt(database: Database, store: Store) -> None:
    tomorrow = database.now() + timedelta(days=1)
    given_due_delivery(database, deliver_at=tomorrow)

    await store.doubt(0, 10, wait=timedelta(minutes=5))

    [row] = [await store.delivery(each["id"]) for each in database.rows("deliveries")]
    assert row is not None
    assert row.next_attempt_at == tomorrow


async def test_next_generation_is_left_alone_for_as_long_as_the_one_before(database: Database, store: Store) -> None:
    waiting = replace(POLICY, doubt_wait=timedelta(minutes=5))
    one = given_due_delivery(database)
    lease = await given_lease(store)
    await store.settle(decided([report(lease, Unknown("timeout"))], waiting, can_look_up=True))
    await store.cancel([one], operator="ada", reason="wrong")

    acted = await store.open_generations([one], kind="requeue", operator="ada", reason="not there")

    row = await store.delivery(acted.ids[0])
    assert row is not None
    assert row.in_doubt
    assert (await store.start(WORKER, 10, HOLD)).lease is None
    assert await doubtful(store) == []
    database.advance(timedelta(minutes=5, seconds=1))
    assert [claim.delivery_id for claim in (await given_lease(store)).claims] == [row.id]


async def test_delivery_held_for_a_person_is_sent_at_once_when_they_say_so(database: Database, store: Store) -> None:
    one = given_due_delivery(database, if_unsure="hold")
    await settle_with(store, await given_lease(store), Unknown("timeout"))

    acted = await store.open_generations([one], kind="requeue", operator="ada", reason="she has seen nothing")

    assert [claim.delivery_id for claim in (await given_lease(store)).claims] == list(acted.ids)


async def test_late_answer_that_proves_it_ends_the_wait(database: Database, store: Store) -> None:
    given_due_delivery(database)
    lease = await given_lease(store, hold=timedelta(seconds=1))
    database.advance(timedelta(seconds=2))
    await expire(store, replace(POLICY, doubt_wait=timedelta(hours=1)), can_look_up=True)

    assert await settle_with(store, lease, Delivered("n-1")) == [Verdict.LATE]

    assert [claim.is_proven for claim in (await given_lease(store)).claims] == [True]


async def test_late_answer_that_proves_it_counts_after_the_next_lost_lease(database: Database, store: Store) -> None:
    """Whoever comes next completes it without asking."""
    patient = replace(POLICY, doubt_wait=timedelta(hours=1))
    given_due_delivery(database)
    lease = await given_lease(store, hold=timedelta(seconds=1))
    database.advance(timedelta(seconds=2))
    await expire(store, patient, can_look_up=True)
    assert (await store.left_alone())[0] == 1
    await settle_with(store, lease, Delivered("n-1"))
    await given_lease(store, hold=timedelta(seconds=1))
    database.advance(timedelta(seconds=2))
    await expire(store, patient, can_look_up=True)

    assert await store.left_alone() == (0, None)
    assert [claim.is_proven for claim in (await doubtful_lease(store)).claims] == [True]


async def test_doubt_is_in_the_operations_log(database: Database, store: Store) -> None:
    operation_id = await store.log_doubt(operator="ada", reason="restored", affected=7)

    [row] = database.rows("operations")
    assert (row["id"], row["kind"], row["operator"], row["reason"], row["affected"]) == (
        operation_id, "doubt", "ada", "restored", 7,
    )  # fmt: skip


async def test_attested_dead_letter_is_followed_by_a_completed_generation(database: Database, store: Store) -> None:
    delivery_id = await given_dead_letter(database, store)
    letter = await store.dead_letter_of(delivery_id)
    assert letter is not None

    acted = await store.attest([letter.id], operator="ada", reason="seen in the mailbox", notification_id="m-1")

    old, new = await store.delivery(delivery_id), await store.delivery(acted.ids[0])
    assert old is not None
    assert new is not None
    assert old.status is DeliveryState.DEAD_LETTERED
    assert (new.status, new.generation, new.notification_id) == (DeliveryState.COMPLETED, 1, "m-1")
    assert new.notified_at is not None
    assert new.next_attempt_at is None
    closed = await store.dead_letter(letter.id)
    assert closed is not None
    assert (closed.closed_as, closed.closed_by) == ("attested", "ada")
    [finding] = await store.findings_of(new.id)
    assert (finding.kind, finding.details) == ("attested", "ada: seen in the mailbox")
    operation = database.rows("operations")[-1]
    assert (operation["kind"], operation["reason"], operation["affected"]) == ("attest", "seen in the mailbox", 1)
    assert (await store.start(WORKER, 10, HOLD)).lease is None


async def test_attest_does_nothing_when_one_is_not_open(database: Database, store: Store) -> None:
    letters = []
    for _ in range(2):
        letter = await store.dead_letter_of(await given_dead_letter(database, store))
        assert letter is not None
        letters.append(letter.id)
    await store.discard(letters[:1], operator="ada", reason="no")
    before = len(database.rows("deliveries"))

    with pytest.raises(NotAllowed, match="was discarded already"):
        await store.attest(letters[::-1], operator="ada", reason="yes")
    with pytest.raises(NotFound, match="there is no dead letter 99"):
        await store.attest([letters[1], 99], operator="ada", reason="yes")

    assert len(database.rows("deliveries")) == before
    assert len(await store.dead_letters(Filter())) == 1


async def test_completed_first_generation_cannot_be_made(database: Database) -> None:
    given_due_delivery(database)

    with pytest.raises(REFUSED):
        database.execute(
            "insert into sendonce_deliveries (event_id, destination, destination_hash, status, next_attempt_at,"
            " created_at, updated_at) select event_id + 1, destination, destination_hash, 'Completed', null,"
            " created_at, updated_at from sendonce_deliveries"
        )


async def test_finding_is_written_once(database: Database, store: Store) -> None:
    delivery_id = await given_delivery_in(database, store, DeliveryState.COMPLETED)

    assert await store.add_finding(delivery_id, kind="no_evidence", details="gone")
    assert not await store.add_finding(delivery_id, kind="no_evidence", details="still gone")
    assert await store.add_finding(delivery_id, kind="other_id", details="moved", notification_id="n-2")
    assert await store.add_finding(delivery_id, kind="other_id", details="moved on", notification_id="n-3")

    assert [(each.kind, each.notification_id) for each in await store.findings_of(delivery_id)] == [
        ("no_evidence", None), ("other_id", "n-2"), ("other_id", "n-3"),
    ]  # fmt: skip


async def test_walk_finds_what_was_completed_since_then(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sendonce.store.reconciliation.WINDOW", 2)
    ids = [await given_delivery_in(database, store, DeliveryState.COMPLETED) for _ in range(7)]
    await given_dead_letter(database, store)
    given_due_delivery(database)
    [newer] = (await store.open_generations([ids[1]], kind="replay", operator="ada", reason="again")).ids
    since = database.now() - timedelta(hours=1)

    async def walked(since: datetime, limit: int) -> list[list[int]]:
        steps, after = [], 0
        while True:
            rows, next_after = await store.completed_after(after, since=since, limit=limit)
            steps.append([row.id for row in rows])
            if next_after is None:
                return steps
            assert next_after > after
            after = next_after

    assert await walked(since, 4) == [[ids[0]], ids[2:4], ids[4:6], [ids[6]], [], []]
    assert [each for step in await walked(since, 1) for each in step] == [ids[0], *ids[2:]]
    assert newer not in [each for step in await walked(since, 4) for each in step]
    assert await walked(database.now() + timedelta(hours=1), 4) == [[]] * 6


async def test_delivery_that_is_first_since_a_time_is_found_by_halving(database: Database, store: Store) -> None:
    assert await store.first_delivery_since(database.now()) == 1
    ids = given_due_deliveries(database, 20)
    for number, delivery_id in enumerate(ids):
        age = timedelta(days=20 - number)
        made_at = database.now() - age
        value = int(made_at.timestamp() * 1_000_000) if isinstance(database, SqliteDatabase) else made_at
        database.execute("update sendonce_deliveries set created_at = ? where id = ?", value, delivery_id)

    assert await store.first_delivery_since(database.now() - LONG_AGO) <= ids[0]
    found = await store.first_delivery_since(database.now() - timedelta(days=10.5))
    assert ids[8] < found <= ids[10]
    assert await store.first_delivery_since(database.now() + LONG_AGO) == ids[-1] + 1


@pytest.mark.parametrize(
    ("kind", "notification_id", "in_doubt"),
    [("replay", "n-1", False), ("replay", None, True), ("repair", "n-1", True), ("repair", None, True)],
)
async def test_R18_what_is_marked_sent_without_evidence_is_in_doubt_in_its_next_generation(
    database: Database, store: Store, kind: str, notification_id: str | None, in_doubt: bool
) -> None:
    delivery_id = given_due_delivery(database)
    await settle_with(store, await given_lease(store), Delivered(notification_id))

    [opened] = (await store.open_generations([delivery_id], kind=kind, operator="ada", reason="x")).ids

    row = await store.delivery(opened)
    assert row is not None
    assert row.in_doubt is in_doubt
    assert row.notification_id == (notification_id if in_doubt else None)
    assert row.if_unsure == ("resend" if in_doubt and kind == "replay" else None)
