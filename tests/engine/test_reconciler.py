"""Asking now about everything in doubt, and checking what is marked sent: nothing is ever sent by it."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from sendonce.channels.protocol import Credentials, Message
from sendonce.domain.attempts import Report as Said
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import (
    LEASE_EXPIRED,
    CannotTell,
    Deferred,
    Delivered,
    Failed,
    Found,
    NoAnswer,
    NotThere,
    Refused,
    Unknown,
)
from sendonce.domain.policies import Policy
from sendonce.engine import reconciler as engine_reconciler
from sendonce.engine.orchestrator import Orchestrator, Policies
from sendonce.engine.reconciler import Answer, Asked
from sendonce.store.ports import Store
from tests.engine import rig
from tests.engine.reconciling import (
    AT_ONCE,
    HOUR,
    LATER,
    given_in_doubt,
    reconcile,
    reconciler,
    row_of,
)
from tests.engine.rig import never, serving, working
from tests.given import given_due_delivery, given_lease, settle_with
from tests.processes import until_async
from tests.store.databases import Database


async def test_R16_what_is_found_is_completed_with_its_id_and_time_and_nothing_is_sent(
    database: Database, store: Store
) -> None:
    [delivery_id] = await given_in_doubt(database, store)
    sent_at = database.now() - HOUR
    channel = rig.Asked(Delivered("no"), answers=[Found("n-7", sent_at)])

    done, [asked] = await reconcile(store, serving(channel))

    row = await row_of(store, delivery_id)
    assert (row.status, row.notification_id, row.in_doubt) == (DeliveryState.COMPLETED, "n-7", False)
    assert row.notified_at is not None
    assert abs(row.notified_at - sent_at) < timedelta(seconds=1)
    assert (done.asked, done.answers, done.unanswered) == (1, {Answer.FOUND: 1}, 0)
    assert asked == Asked(delivery_id, "test:a", Answer.FOUND, "n-7")
    assert channel.sent == []


async def test_R11_what_is_not_found_is_sent_by_a_worker_with_the_same_token(database: Database, store: Store) -> None:
    [delivery_id] = await given_in_doubt(database, store)
    channel = rig.Asked(Delivered("n-1"), answers=[NotThere()])

    done, _ = await reconcile(store, serving(channel))

    row = await row_of(store, delivery_id)
    assert (row.status, row.in_doubt, done.answers) == (DeliveryState.PENDING_RETRY, False, {Answer.NOT_FOUND: 1})
    assert row.next_attempt_at is not None
    assert row.next_attempt_at <= database.now() + timedelta(seconds=1)
    assert channel.sent == []
    async with working(store, serving(channel), until_idle=True) as at_work:
        await at_work.ended()
    assert [message.delivery_id for message in channel.sent] == [delivery_id]
    assert len(channel.asked) == 1
    assert (await row_of(store, delivery_id)).status is DeliveryState.COMPLETED


@pytest.mark.parametrize("outcome", [Unknown("timeout"), LEASE_EXPIRED])
async def test_R11_nothing_is_asked_about_before_its_moment(database: Database, store: Store, outcome: Unknown) -> None:
    [delivery_id] = await given_in_doubt(database, store, outcome=outcome, policy=LATER)
    channel = rig.Asked(Delivered("n-1"), answers=[NotThere()])

    early, _ = await reconcile(store, serving(channel))

    row = await row_of(store, delivery_id)
    assert (row.in_doubt, early.asked, channel.asked) == (True, 0, [])
    assert early.left_alone == 1
    assert early.left_alone_until == row.not_before == row.next_attempt_at
    database.advance(HOUR + timedelta(seconds=1))
    done, _ = await reconcile(store, serving(channel))
    assert (done.answers, done.left_alone) == ({Answer.NOT_FOUND: 1}, 0)


async def test_R11_who_lost_a_lease_may_still_be_sending_and_is_not_asked_about_meanwhile(
    database: Database, store: Store
) -> None:
    await given_in_doubt(database, store, outcome=LEASE_EXPIRED, policy=replace(AT_ONCE, timeout=HOUR))
    channel = rig.Asked(Delivered("n-1"), answers=[NotThere()])

    done, _ = await reconcile(store, serving(channel))

    assert (done.asked, done.left_alone, channel.asked) == (0, 1, [])


@pytest.mark.parametrize(
    "answer",
    [NoAnswer("http_503"), NoAnswer("our_credentials"), RuntimeError("secret"), TimeoutError(), "nonsense", never],
)
async def test_R11_without_an_answer_it_stays_in_doubt_and_spends_no_attempt(
    database: Database, store: Store, answer: object
) -> None:
    [delivery_id] = await given_in_doubt(database, store)
    channel = rig.Asked(Delivered("n-1"), answers=[answer])
    policy = Policy(jitter=0, timeout=timedelta(milliseconds=100))

    done, _ = await reconcile(store, serving(channel), policy)

    row = await row_of(store, delivery_id)
    assert (row.status, row.in_doubt) == (DeliveryState.PENDING_RETRY, True)
    assert row.attempt_count - row.deferred_count == 1
    assert (done.answers, done.unanswered) == ({Answer.NO_ANSWER: 1}, 1)
    assert "secret" not in str(database.rows("attempts"))


async def test_R11_where_nobody_can_be_asked_the_policy_decides(database: Database, store: Store) -> None:
    [held] = await given_in_doubt(database, store, to="hold:a")
    [resent] = await given_in_doubt(database, store, to="resend:a")
    channels = serving(rig.Told(Delivered()), "hold", if_unsure="hold")
    channels.add(rig.Told(Delivered()), "resend", if_unsure="resend")

    done, _ = await reconcile(store, channels)

    letter = await store.dead_letter_of(held)
    assert letter is not None
    assert (letter.reason, letter.in_doubt) == (ReasonClass.IN_DOUBT, True)
    row = await row_of(store, resent)
    assert (row.status, row.in_doubt) == (DeliveryState.PENDING_RETRY, True)
    assert (done.answers, done.unanswered) == ({Answer.HELD: 1, Answer.LEFT: 1}, 0)


@pytest.mark.parametrize(("is_safe", "answer"), [(True, Answer.LEFT), (False, Answer.HELD)])
async def test_R11_provider_that_cannot_tell_leaves_it_to_the_policy_unless_it_deduplicates(
    database: Database, store: Store, is_safe: bool, answer: Answer
) -> None:
    await given_in_doubt(database, store)
    channel = rig.Asked(Delivered("n"), answers=[CannotTell("too_old", is_safe_to_repeat=is_safe)])

    done, _ = await reconcile(store, serving(channel, if_unsure="hold"))

    assert done.answers == {answer: 1}
    assert channel.sent == []


async def test_destination_without_a_channel_stays_in_doubt(database: Database, store: Store) -> None:
    [delivery_id] = await given_in_doubt(database, store, to="other:a")

    done, asked = await reconcile(store, serving(rig.Told(Delivered())))

    assert (done.asked, asked) == (0, [])
    assert (await row_of(store, delivery_id)).in_doubt


async def test_R16_no_permanent_failure_before_it_was_asked_about_and_not_found(
    database: Database, store: Store
) -> None:
    given_due_delivery(database, to="test:a")
    once = Policy(max_attempts=1, jitter=0, doubt_wait=timedelta(0))
    channel = rig.Asked(Unknown("timeout"), answers=[NoAnswer("down"), NotThere()])
    lease = await given_lease(store)
    orchestrator = Orchestrator(store, Policies(once), serving(channel))
    await orchestrator.settle(orchestrator.decide([Said(lease.claims[0], lease.id, Unknown("timeout"))]))

    first, _ = await reconcile(store, serving(channel), once)
    second, _ = await reconcile(store, serving(channel), once)

    assert first.answers == {Answer.NO_ANSWER: 1}
    assert second.answers == {Answer.GIVEN_UP: 1}
    letter = await store.dead_letter_of(lease.claims[0].delivery_id)
    assert letter is not None
    assert letter.reason is ReasonClass.EXHAUSTED


async def test_reconciler_asks_about_everything_once_so_many_at_a_time(database: Database, store: Store) -> None:
    ids = await given_in_doubt(database, store, 25)
    busy, most = 0, 0

    class Counting(rig.Told):
        async def look_up(self, message: Message, *, timeout: float) -> NoAnswer:
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0)
            busy -= 1
            return NoAnswer("down", again_in=timedelta(0))

    done, asked = await reconcile(store, serving(Counting(Delivered())), concurrency=10)

    assert [each.delivery_id for each in asked] == ids
    assert done.asked == 25
    assert 1 < most <= 10
    assert database.one("select count(*) from sendonce_leases") == 0


async def test_reconciler_waits_for_nobody_until_the_lease_is_over(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes it over would ask at the same time, and what is answered after that is late."""
    monkeypatch.setattr(engine_reconciler, "MARGIN_SECONDS", engine_reconciler.LEASE.total_seconds() - 0.1)
    [delivery_id] = await given_in_doubt(database, store)
    channel = rig.Asked(Delivered("n"), answers=[never])

    async with asyncio.timeout(50):
        done, asked = await reconcile(store, serving(channel), replace(AT_ONCE, timeout=HOUR))

    assert [each.detail for each in asked] == ["look_up_timeout"]
    assert done.answers == {Answer.NO_ANSWER: 1}
    assert (await row_of(store, delivery_id)).in_doubt


async def test_secrets_that_cannot_be_read_are_no_answer(database: Database, store: Store) -> None:
    await store.add_subscription(
        tenant="", types=["order.*"], destination="test:s", policy=None, description=None, operator="ada"
    )
    database.publish("order.paid", {}, key="o-1", to=None)
    await settle_with(store, await given_lease(store), Unknown("timeout"), AT_ONCE, can_look_up=True)
    channel = rig.Asked(Delivered("n"), answers=[Found("n")])

    class Locked:
        async def of(self, subscription_id: int) -> Credentials | Deferred:
            return Deferred("our_credentials")

    class Open:
        async def of(self, subscription_id: int) -> Credentials | Deferred:
            return Credentials(bearer="b")

    assert (await reconciler(store, serving(channel), credentials=Locked()).run(lambda asked: None)).unanswered == 1
    assert channel.asked == []
    assert (await reconciler(store, serving(channel), credentials=Open()).run(lambda asked: None)).unanswered == 0
    assert [message.credentials.bearer for message in channel.asked] == ["b"]


async def test_reconciler_hands_back_what_was_not_asked_when_interrupted(database: Database, store: Store) -> None:
    ids = await given_in_doubt(database, store, 3)
    channel = rig.Asked(Delivered("n"), answers=[Found("n-1"), never])
    running = asyncio.create_task(reconciler(store, serving(channel)).run(lambda asked: None))
    await until_async(lambda: len(channel.asked) == 3, "three questions")

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    rows = [await row_of(store, each) for each in ids]
    assert sorted(row.status for row in rows) == ["Completed", "PendingRetry", "PendingRetry"]
    assert all(row.in_doubt for row in rows if row.status is DeliveryState.PENDING_RETRY)
    assert database.one("select count(*) from sendonce_leases") == 0


async def test_R11_doubt_survives_a_later_failure_and_a_later_refusal(database: Database, store: Store) -> None:
    [delivery_id] = await given_in_doubt(database, store)
    channel = rig.Asked(Delivered("n"), answers=[NoAnswer("connect"), Found("n-3")])
    channels = serving(channel)
    orchestrator = Orchestrator(store, Policies(AT_ONCE), channels)
    for outcome in (Failed("connect"), Refused("http_404")):
        database.advance(timedelta(days=1))
        lease = await given_lease(store)
        await orchestrator.settle(orchestrator.decide([Said(lease.claims[0], lease.id, outcome)]))
        assert (await row_of(store, delivery_id)).in_doubt

    await reconcile(store, channels)
    assert (await row_of(store, delivery_id)).in_doubt
    await reconcile(store, channels)

    assert (await row_of(store, delivery_id)).notification_id == "n-3"
    assert channel.sent == []
