"""Everything that the code can do, done once on a large database, so that every query is asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from sendonce.admin.checks import CHECKS
from sendonce.admin.explain import explain
from sendonce.domain.attempts import Fence, Refusal, Witness
from sendonce.domain.breakers import Answers, Pauses
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.events import new_event
from sendonce.domain.evidence import Evidence, Told
from sendonce.domain.limits import Limits
from sendonce.domain.outcomes import Delivered, Failed, Refused
from sendonce.domain.texts import provider_token
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.store.bulk import ATTEST, CANCEL, DISCARD, REPLAY, REQUEUE
from sendonce.store.filters import Filter
from sendonce.store.inbox import MessageFilter
from sendonce.store.late_evidence import PLACES
from sendonce.store.postgres.doctor import examine
from sendonce.store.postgres.store import PostgresStore
from sendonce.store.tries import Arrived, Content, Failure
from sendonce.store.upkeep import Person, Stage
from sendonce.store.verifying import Times, Walk
from tests.given import HOLD, POLICY, WORKER, decided, expire, given_lease, result, settle_with
from tests.store.bulkwork import begun, step
from tests.store.postgres import million

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.connect(url)
    try:
        yield store
    finally:
        await store.close()


def publish(connection: psycopg.Connection) -> None:
    outbox = Outbox()
    for _ in range(2):
        outbox.publish(connection, "order.created", {"n": 1}, key="new-1", to=["null:a", "null:b"])
    outbox.publish_many(
        connection, [Draft("order.created", {"n": n}, key=f"new-{n}", to="null:a") for n in range(2, 500)]
    )
    for key in ("new-job-1", "new-job-2"):
        made = outbox.request(connection, "order.created", {}, key=key, subject="new", version=3, required="null:a")
        assert outbox.request_state(connection, made.request_id)


async def do_everything(url: str) -> None:
    async with opened(url) as store:
        await work(store)
        await hold_back(store)
        await operate(store)
        await correct(store)
        await evidence(store)
        await by_filter(store)
        await reconcile(store)
        await decide_messages(store)
        await consume(store)
        await alert(store)
        await look(store)
        await inspect(store)
        await prune(store)
    await examine(url)


async def work(store: PostgresStore) -> None:
    worker_id = await store.register("host:1", "1.0", 10)
    await store.is_eldest(worker_id)
    lease = await given_lease(store, limit=500)
    witness = Witness(lease.claims[0].delivery_id, 1, lease.id, lease.claims[0].event_id, lease.at)
    await store.beat(worker_id, progressed=True, witness=witness)
    await store.renew([lease.id], HOLD)
    outcomes = (Delivered("n"), Failed("503"), Refused("410"))
    await store.settle([result(lease, outcomes[n % 3], of=n) for n in range(500)])
    await store.settle([result(lease, Delivered("late"), of=1)])
    await store.settle([result(lease, Refused("late"), of=1)])
    await store.release([lease.id])
    assert await expire(store)
    await store.is_idle()
    await store.roll_up_counters()
    await store.stop("channel", "null", operator="ada", reason=None)
    await store.start(WORKER, 10, HOLD)
    await store.resume("channel", "null", operator="ada")
    await store.leave(worker_id)


async def inspect(store: PostgresStore) -> None:
    """The steps of a consistency check, in the middle of what has ended."""
    now = (await store.verify_facts()).now
    await store.broken_rules()
    for walk in Walk:
        checks = [check.name for check in CHECKS if check.walk is walk]
        for after in (1_000, million.FINISHED // 2, million.FINISHED):
            await store.inspect(walk, checks, after, limit=5_000, ended=Times(surely=now, until=now))


async def operate(store: PostgresStore) -> None:
    ids = [row.delivery_id for row in await store.dead_letters(Filter(limit=100))]
    await store.open_generations(ids, kind="requeue", operator="ada", reason="test")
    letters = [row.id for row in await store.dead_letters(Filter(limit=100))]
    await store.discard(letters, operator="ada", reason="test")
    waiting = await store.deliveries(Filter(status=DeliveryState.PENDING_RETRY, limit=50))
    await store.cancel([row.id for row in waiting], operator="ada", reason="test")
    added = await store.add_subscription(
        tenant="", types=["a.b"], destination="null:a", policy=None, description=None, operator="ada"
    )
    await store.set_subscription_policy(added, None, operator="ada", reason=None)
    await store.set_subscription_ask(added, None, operator="ada", reason=None)
    await store.set_subscription_types(added, ["c.d"], operator="ada", reason=None)
    await store.add_test(added, new_event("sendonce.test", {}, key="test", to=None), operator="ada")
    for state in ("paused", "active", "removed"):
        await store.set_subscription_state(added, state, operator="ada", reason=None)


async def correct(store: PostgresStore) -> None:
    letters = await store.dead_letters(Filter(limit=2))
    for letter, destination in zip(letters, (None, "null:corrected"), strict=True):
        await store.correct(
            letter.delivery_id, content="{}", destination=destination, operator="ada", reason="test", even_if_sent=True
        )
        await store.corrections_of(letter.delivery_id)
        await store.content(letter.delivery_id)


async def evidence(store: PostgresStore) -> None:
    """Of one that waits: proof; of another: a refusal; and of what has ended, twice."""
    for place in PLACES:
        for by in ("token", "notification_id"):
            await store.seek_deliveries(by, ["a" * 40, "n"], place)
    waiting = await store.deliveries(Filter(status=DeliveryState.PENDING_RETRY, limit=2))
    told = zip([*waiting, *waiting], (Told.DELIVERED, Told.REFUSED) * 2, strict=True)
    for number, (row, outcome) in enumerate(told):
        reference = f"r-{number}" if number < 2 else None
        said = Evidence(source="log", outcome=outcome, token="t", notification_id="n-1", reference=reference)
        await store.preview_evidence(row.id, said)
        await store.add_evidence(row.id, said, operator="ada")
        await store.evidence_of(row.id)
        await store.add_evidence(million.FINISHED // 2, said, operator="ada")


async def by_filter(store: PostgresStore) -> None:
    for kind in (REQUEUE, ATTEST, DISCARD, REPLAY, CANCEL):
        operation = await begun(store, kind, Filter(type="order.*"))
        await store.match(kind, Filter(), after=operation.first_id, upper=operation.upper_id, window=5000)
        await step(store, operation, most=100)
        await store.set_operation_state(operation.id, "cancelled", operator="ada", reason=None)
    await store.operations(before=million.FINISHED, state="running", limit=10)
    await store.subscriptions("acme", before=million.FINISHED)
    await store.held_subscriptions(10)
    await store.deliveries_of(77)
    await store.deliveries_of(77, before=million.FINISHED)
    await store.operation(1)


async def alert(store: PostgresStore) -> None:
    await store.readings(HOLD)
    for _ in range(2):
        await store.raise_alert("dead_letters", "some", seen=1, repeat=HOLD)
    await store.alerts()
    await store.clear_alert("dead_letters")


async def hold_back(store: PostgresStore) -> None:
    """What is parked is in one room; with nothing left for its channel, what is due joins it in another."""
    await store.rooms(after="", limit=100)
    limits = Limits(left={"null:a": 3}, left_at_place={"example.com": 0})
    lease = (await store.start_waiting(WORKER, {"subscription:1": 50}, HOLD, limits)).lease
    assert lease is not None
    await settle_with(store, lease, Failed("503"))
    name = "destination:null:a"
    await store.trip(name, pause=timedelta(microseconds=1), code=None)
    assert (await store.start(WORKER, 50, HOLD, limits)).parked
    assert (await store.start_waiting(WORKER, {"subscription:1": 50}, HOLD, limits)).parked
    await store.start_waiting(WORKER, {"subscription:1": 1}, HOLD, limits, probes={"subscription:1": 0.5})
    while (out := await store.let_out(name, 8, HOLD)).amount:
        await store.give_back(name, out.turn, 1)
        out = await store.let_out(name, 8, HOLD)
        await store.learn(name, out.turn, Answers(through=8), Pauses(first=HOLD, longest=HOLD))
    await store.give_back_tokens(1, 1)
    await store.forget_breakers(timedelta(0))


async def reconcile(store: PostgresStore) -> None:
    await store.doubt(million.FINISHED, 1000, wait=timedelta(0))
    lease = (await store.start_doubtful(WORKER, 50, HOLD, after=million.FINISHED)).lease
    assert lease is not None
    await settle_with(store, lease, Delivered())
    await store.log_doubt(operator="ada", reason="test", affected=1)
    letters = await store.dead_letters(Filter(limit=2))
    await store.attest([letter.id for letter in letters], operator="ada", reason="test")
    await store.add_finding(77, kind="no_evidence", details="test")
    since = datetime.now(UTC) - timedelta(hours=2)
    await store.left_alone()
    await store.give_up_unserved("channel:sms", 0, 100, message="nobody served it")
    witness = Witness(lease.claims[0].delivery_id, 99, 1, lease.claims[0].event_id, since)
    for _ in range(2):
        assert await store.notice_loss(witness, wait=timedelta(0), noticed_by="host:1") is not None
    assert (await store.start(WORKER, 1, HOLD, fence=Fence(witness=witness))).refused is Refusal.COMMITS_LOST
    await store.mark_loss(100)
    await store.end_loss()
    await store.disprove_loss(operator="ada", reason="test")
    await store.adopt(million.FINISHED, 1000, lambda reports: decided(reports, POLICY))
    await store.server()
    await store.refusal(Fence(witness=witness))
    await store.name_instance("production", operator="ada", reason=None)
    await store.name_instance(None, operator="ada", reason=None)
    await store.completed_after(await store.first_delivery_since(since), since=since, limit=100)


async def consume(store: PostgresStore) -> None:
    """A message that was given again, one that has failed, and those that are due again."""
    again = Arrived(consumer="wallet", id="again", position="nats:payments:1", source="nats:main/payments")
    begun = await store.begin_message(again, most_lost=3, worker="w:1")
    begun = await store.begin_message(again, most_lost=3, worker="w:1")
    assert begun.row_id is not None
    await store.hold_messages([begun.row_id], HOLD)
    await store.return_messages([begun.row_id])
    await store.begin_message(again, most_lost=3, worker="w:1")
    await store.complete_message(begun.row_id)
    await store.begin_message(again, most_lost=3, worker="w:1")
    content, failure = Content(body=b"{}", headers={}), Failure("ValueError", "x", again_in=timedelta(0))
    await store.fail_message(replace(again, id="fails"), None, content, failure, worker="w:1")
    due = await store.due_messages("wallet", 200, hold=HOLD, worker="w:1")
    [waiting] = [each for each in due if each.arrived.id == "fails"]
    await store.fail_message(waiting.arrived, waiting.row_id, content, failure, worker="w:1")


async def decide_messages(store: PostgresStore) -> None:
    """What people see of messages, and what they decide about dead ones and about one that waits."""
    key = f"m-{million.HANDLED - 7}"
    for wanted in (MessageFilter(), MessageFilter(consumer="nobody"), MessageFilter(message_id=key)):
        await store.messages(wanted)
    dead = (await store.messages(MessageFilter(dead=True, limit=4))).rows
    assert len(dead) == 4
    [waiting] = (await store.messages(MessageFilter(message_id=f"m-{million.HANDLED + 10}"))).rows
    for row in (*dead, waiting):
        assert await store.message(row.id)
        assert await store.tries_of(row.id)
    assert await store.receipts_of(key)
    assert (await store.inbox_counts()).dead
    await store.retry_messages([row.id for row in dead[:2]], operator="ada", reason="test")
    await store.discard_messages([*[row.id for row in dead[2:]], waiting.id], operator="ada", reason="test")
    await store.erase_message(key, operator="ada", reason="test")


async def prune(store: PostgresStore) -> None:
    """Of some events only: the rest is what the other tests are made with. The first ones have requests."""
    for stage, after in ((Stage.PAYLOADS, 0), (Stage.HISTORY, million.REQUESTS), (Stage.KEYS, 0)):
        await store.count_old(stage, after, limit=100, age=timedelta(0))
        step = await store.retain(stage, after, limit=100, age=timedelta(0), archive=lambda documents: None)
        assert step.events
    for person in (Person(destination="null:a"), Person(subject="nobody")):
        found, _ = await store.events_of(person, 0, limit=100)
        await store.erase(found, person, shared=False, operator="ada")
    # What has only just ended is dropped at last, so that the rest of it is still there for what comes before.
    for contents, keep in ((timedelta(0), None), (None, timedelta(days=7)), (None, timedelta(0))):
        assert await store.drop_inbox(limit=100, keep=keep, contents=contents) == (200 if keep else 100)


async def look(store: PostgresStore) -> None:
    await store.status()
    since = datetime.now(UTC) - timedelta(hours=2)
    for wanted in (Filter(), Filter(type="order.paid"), Filter(status=DeliveryState.COMPLETED, destination="null:a")):
        await store.events(wanted)
    for status in (None, *DeliveryState):
        await store.deliveries(Filter(status=status))
        await store.deliveries(Filter(status=status, type="order.created", since=since))
    await store.deliveries(Filter(status=DeliveryState.PENDING, type="no.such"))
    await store.dead_letters(Filter(reason=ReasonClass.EXPIRED))
    await store.dead_letters(Filter(include_cancelled=True))
    await store.dead_letter_summary(Filter())
    for look in (store.events, store.requests, store.deliveries, store.dead_letters):
        await look(Filter(type="no.such", since=since, before=million.FINISHED))
    newest = (await store.deliveries(Filter(limit=1)))[0]
    token = provider_token(
        await store.namespace(), newest.tenant, newest.type, newest.key, newest.destination, newest.corrections
    )
    assert list(await store.delivery_by_token(token)) == [newest]
    assert await store.payload(5) is not None
    await store.undelivered("acme", limit=10)
    await store.waiting_in(["subscription:1", "rate:1"])
    assert await store.request(77) is not None
    assert await store.requests(Filter())
    assert await store.requests(Filter(subject="order-77"))
    assert await store.requests_by_key("job-77")
    for words in ("order-000000077", "delivery:77", "dead-letter:5"):
        await explain(store, words)
