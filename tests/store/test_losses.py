"""A database that has lost commits: nothing is claimed until what it has is in doubt, and how that ends; on both."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from sendonce.admin.bulk import plan
from sendonce.admin.dead_letters import correct, replay, requeue
from sendonce.admin.explain import explain
from sendonce.admin.reconcile import open_in_doubt
from sendonce.domain.attempts import Fence, Lease, Refusal, Verdict, Witness
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Outcome, Unknown
from sendonce.errors import NotAllowed
from sendonce.store.bulk import REPLAY, REQUEUE
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from sendonce.store.records import LossRow
from tests.given import (
    HOLD,
    POLICY,
    WORKER,
    decided,
    given_dead_letter,
    given_delivery_in,
    given_due_deliveries,
    given_due_delivery,
    given_lease,
    report,
    settle_with,
)
from tests.store.bulkwork import begun, finish
from tests.store.databases import Database
from tests.store.test_parked_queue_races import at_once

WAIT = timedelta(minutes=5)


def witness_of(lease: Lease) -> Witness:
    claim = lease.claims[0]
    return Witness(claim.delivery_id, claim.attempt, lease.id, claim.event_id, lease.at)


def lost(witness: Witness) -> Witness:
    """The same claim as a life of the database had it that is undone: its lease id is not here."""
    return witness._replace(lease_id=witness.lease_id + 1)


async def given_claim(database: Database, store: Store) -> Witness:
    """A delivery that was claimed, and settled."""
    given_due_delivery(database, to="null:witness")
    lease = await given_lease(store)
    await settle_with(store, lease, Delivered("n-0"))
    await store.release([lease.id])
    return witness_of(lease)


async def given_marked_loss(database: Database, store: Store) -> Witness:
    """A loss whose deliveries are all in doubt, left alone for WAIT."""
    witness = lost(await given_claim(database, store))
    given_due_deliveries(database, 3)
    assert await store.notice_loss(witness, wait=WAIT, noticed_by="host:7") is not None
    while await store.mark_loss(2):
        continue
    return witness


async def test_worker_goes_on_where_the_newest_claim_it_has_seen_is_there(database: Database, store: Store) -> None:
    fence = Fence(witness=await given_claim(database, store))
    given_due_delivery(database)

    started = await store.start(WORKER, 10, HOLD, fence=fence)

    assert started.refused is None
    assert started.lease is not None
    assert (await store.start_doubtful(WORKER, 10, HOLD, after=0, fence=fence)).refused is None


@pytest.mark.parametrize("part", ["delivery_id", "attempt", "lease_id"])
@pytest.mark.parametrize("probes", [{}, {"place:null": 0.0}], ids=["room", "probe"])
async def test_claims_stop_where_the_newest_claim_is_missing(
    database: Database, store: Store, part: str, probes: dict[str, float]
) -> None:
    witness = await given_claim(database, store)
    fence = Fence(witness=witness._replace(**{part: getattr(witness, part) + 1}))
    given_due_delivery(database)
    database.execute("update sendonce_deliveries set in_doubt = true where id = ?", given_due_delivery(database))
    parked = given_due_delivery(database)
    database.execute(
        "update sendonce_deliveries set next_attempt_at = null, parked_on = 'place:null' where id = ?", parked
    )
    for started in (
        await store.start(WORKER, 10, HOLD, fence=fence),
        await store.start_waiting(WORKER, {"place:null": 1}, HOLD, fence=fence, probes=probes),
        await store.start_doubtful(WORKER, 10, HOLD, after=0, fence=fence),
    ):
        assert (started.lease, started.refused) == (None, Refusal.COMMITS_LOST)
    for started in (
        await store.start(WORKER, 1, HOLD),
        await store.start_waiting(WORKER, {"place:null": 1}, HOLD, probes=probes),
        await store.start_doubtful(WORKER, 10, HOLD, after=0),
    ):
        assert started.lease is not None, "there is something for each of them"


@pytest.mark.parametrize(
    ("name", "ours", "refused"),
    [
        (None, None, None),
        (None, "production", None),
        ("production", "production", None),
        ("production", "staging", Refusal.OTHER_INSTANCE),
        ("production", None, Refusal.OTHER_INSTANCE),
    ],
)
async def test_database_of_another_name_is_not_claimed_from(
    database: Database, store: Store, name: str | None, ours: str | None, refused: Refusal | None
) -> None:
    given_due_delivery(database)
    if name is not None:
        await store.name_instance(name, operator="ada", reason="the real one")

    started = await store.start(WORKER, 10, HOLD, fence=Fence(instance=ours))

    assert (await store.instance(), (await store.status()).instance) == (name, name)
    assert started.refused is refused
    assert (started.lease is None) is (refused is not None)


async def test_name_can_be_changed_and_taken_away_and_is_in_the_log(database: Database, store: Store) -> None:
    for name in ("production", "staging", None):
        await store.name_instance(name, operator="ada", reason=None)
        assert await store.instance() == name

    logged = [(row["kind"], row["subject"]) for row in database.rows("operations")]
    assert logged == [("instance", "production"), ("instance", "staging"), ("instance", "unnamed")]


async def test_claims_wait_until_what_is_open_is_in_doubt_after_a_loss(database: Database, store: Store) -> None:
    witness = lost(await given_claim(database, store))
    given_due_deliveries(database, 3)

    loss = await store.notice_loss(witness, wait=WAIT, noticed_by="host:7")

    assert loss is not None
    assert (loss.marked_id, loss.noticed_by, loss.ended_at) == (0, "host:7", None)
    assert (await store.status()).loss == loss
    other = await database.open()
    assert (await other.start(WORKER, 10, HOLD)).refused is Refusal.UNMARKED
    steps = 0
    while await store.mark_loss(2):
        steps += 1
    assert steps == 2
    started = await other.start(WORKER, 10, HOLD)
    assert (started.refused, started.lease) == (None, None)
    marked = (await store.status()).loss
    assert marked is not None
    assert (marked.doubted, marked.marked_id) == (3, marked.upto_id)
    database.advance(WAIT + timedelta(seconds=1))
    assert [claim.in_doubt for claim in (await given_lease(store)).claims] == [True] * 3


async def test_event_recorded_after_a_loss_is_sent_without_asking(database: Database, store: Store) -> None:
    await given_marked_loss(database, store)

    new = given_due_delivery(database)

    assert [(claim.delivery_id, claim.in_doubt) for claim in (await given_lease(store)).claims] == [(new, False)]


async def given_for_subscription(database: Database, store: Store, policy: str | None) -> int:
    """A due delivery of a subscription with this policy; its id."""
    place = database.one("select count(*) from sendonce_subscriptions")
    await store.add_subscription(
        tenant=f"t{place}",
        types=["memo.created"],
        destination="null:s",
        policy=policy,
        description=None,
        operator="ada",
    )
    return given_due_delivery(database, to=None, tenant=f"t{place}")


OWN_WAITS = [
    (None, WAIT),
    ('{"doubt_wait": "2h"}', timedelta(hours=2)),
    ('{"doubt_wait": 7200.5, "max_attempts": 2}', timedelta(seconds=7200.5)),
    ('{"timeout": "40m"}', timedelta(minutes=80)),
    ('{"doubt_wait": "1s"}', WAIT),
    ('{"first_delay": "3h", "longest_delay": "4h"}', WAIT),
    ("nobody can read this", WAIT),
]


async def waits(store: Store, ids: list[int], since: datetime) -> list[float]:
    """For how many seconds each is left alone."""
    rows = [await store.delivery(each) for each in ids]
    moments = [(row.not_before, row.next_attempt_at) for row in rows if row]
    assert all(not_before is not None and not_before == due for not_before, due in moments)
    return [round((not_before - since).total_seconds(), 1) for not_before, _ in moments if not_before]


async def test_loss_leaves_each_alone_for_as_long_as_its_own_subscription_says(
    database: Database, store: Store
) -> None:
    witness = lost(await given_claim(database, store))
    ids = [await given_for_subscription(database, store, policy) for policy, _ in OWN_WAITS]
    ids.append(given_due_delivery(database))
    assert await store.notice_loss(witness, wait=WAIT, noticed_by="host:7") is not None

    while await store.mark_loss(3):
        continue

    [begun] = set(await waits(store, ids[:1], database.now()))
    moments = [seconds - begun for seconds in await waits(store, ids, database.now())]
    wanted = [(wait - WAIT).total_seconds() for _, wait in OWN_WAITS]
    assert moments == pytest.approx([*wanted, 0.0], abs=120)
    database.advance(WAIT + timedelta(minutes=2))
    due = {claim.delivery_id for claim in (await given_lease(store)).claims}
    assert due == {each for each, (_, wait) in zip(ids, OWN_WAITS, strict=False) if wait == WAIT} | {ids[-1]}


async def test_wait_after_a_loss_is_what_the_person_or_the_subscription_says(database: Database, store: Store) -> None:
    own = await given_for_subscription(database, store, '{"doubt_wait": "2h"}')

    async for _ in open_in_doubt(store, operator="ada", reason="restored", wait=timedelta(minutes=1)):
        continue
    [said] = await waits(store, [own], database.now())
    async for _ in open_in_doubt(store, operator="ada", reason="restored"):
        continue
    [left] = await waits(store, [own], database.now())

    assert 0 < said <= 60
    assert 7000 < left <= 7200


async def test_loss_is_noticed_once_for_all_workers(database: Database, store: Store) -> None:
    witness = await given_marked_loss(database, store)

    again = await store.notice_loss(witness, wait=WAIT, noticed_by="host:8")
    database.execute("update sendonce_losses set ended_at = noticed_at, ended_by = 'sendonce worker'")
    when_over = await store.notice_loss(witness, wait=WAIT, noticed_by="host:8")

    assert again is not None
    assert when_over is not None
    assert (again.noticed_by, when_over.noticed_by) == ("host:7", "host:7")
    assert again.marked_id == again.upto_id
    later = witness._replace(at=database.now() + timedelta(seconds=1))
    another = await store.notice_loss(later, wait=WAIT, noticed_by="host:8")
    assert another is not None
    assert (another.id > again.id, another.noticed_by) == (True, "host:8")


async def test_loss_that_is_not_settled_is_begun_anew_by_the_next(database: Database, store: Store) -> None:
    """What was recorded since the first, or was asked about for it, may have been sent and be forgotten again."""
    await given_marked_loss(database, store)
    first = (await store.status()).loss
    database.advance(WAIT + timedelta(seconds=1))
    [asked, *_] = await given_due_after_being_asked(store)
    since = given_due_delivery(database, to="null:since")

    witness = Witness(since, 1, 7, 1, database.now() + timedelta(seconds=1))
    loss = await store.notice_loss(witness, wait=WAIT, noticed_by="host:9")
    while await store.mark_loss(2):
        continue

    assert first is not None
    assert loss is not None
    assert (loss.id, loss.noticed_by, loss.marked_id) == (first.id, "host:9", 0)
    assert loss.upto_id >= since > first.upto_id
    rows = {row["id"]: bool(row["in_doubt"]) for row in database.rows("deliveries")}
    assert (rows[asked], rows[since]) == (True, True)


@pytest.mark.parametrize("waits", [(60 * WAIT, WAIT), (WAIT, 60 * WAIT)], ids=["first", "second"])
async def test_loss_that_is_begun_anew_leaves_each_alone_for_the_longest_of_its_waits(
    database: Database, store: Store, waits: tuple[timedelta, timedelta]
) -> None:
    """Who has noticed it first may have been told to wait for longer."""
    witness = lost(await given_claim(database, store))
    given_due_delivery(database)
    await store.notice_loss(witness, wait=waits[0], noticed_by="host:7")
    newer = witness._replace(at=database.now())
    assert await store.notice_loss(newer, wait=waits[1], noticed_by="host:8") is not None

    while await store.mark_loss(10):
        continue

    left, until = await store.left_alone()
    assert left == 1
    assert until is not None
    assert until - database.now() > 59 * WAIT


async def test_loss_found_by_several_at_once_is_noticed_once(database: Database, store: Store) -> None:
    """Else each of them would begin the marking anew, and tell it as its own."""
    await given_marked_loss(database, store)
    witness = lost(await given_claim(database, store))
    names = iter(range(9))

    found = await at_once(
        database, "losses", lambda taker: taker.notice_loss(witness, wait=WAIT, noticed_by=f"host:{next(names)}")
    )

    assert len({loss.noticed_by for loss in found}) == 1


async def given_due_after_being_asked(store: Store) -> list[int]:
    """Nobody has got them: they are not in doubt any more, and due."""
    lease = await given_lease(store)
    await settle_with(store, lease, Deferred("busy", "come again", timedelta(seconds=1)))
    return [claim.delivery_id for claim in lease.claims]


async def test_heartbeat_says_which_claim_is_the_newest_of_all_workers(database: Database, store: Store) -> None:
    older, newer = await given_claim(database, store), await given_claim(database, store)
    here = await store.register("host:1", "1", 10)
    there = await store.register("host:2", "1", 10)

    assert await store.beat(here, progressed=False) is None
    await store.beat(here, progressed=False, witness=older)
    assert await store.beat(there, progressed=False) == older
    await store.beat(there, progressed=False, witness=newer)
    assert await store.beat(here, progressed=False) == newer
    await store.beat(here, progressed=False, witness=lost(newer)._replace(at=newer.at + timedelta(seconds=1)))
    assert await store.beat(here, progressed=False) == newer  # what the database does not have is no witness


async def test_row_that_retention_removed_is_not_lost(database: Database, store: Store) -> None:
    witness = await given_claim(database, store)
    database.execute("update sendonce_events set history_gone_at = created_at")

    assert await store.notice_loss(lost(witness), wait=WAIT, noticed_by="host:7") is None

    gone = lost(witness)._replace(event_id=witness.event_id + 99)
    old = gone._replace(at=database.now() - timedelta(days=31))
    assert await store.notice_loss(old, wait=WAIT, noticed_by="host:7") is None
    young = gone._replace(at=database.now() - timedelta(days=29))
    assert await store.notice_loss(young, wait=WAIT, noticed_by="host:7") is not None


async def test_row_that_retention_removed_with_its_key_is_not_lost(database: Database, store: Store) -> None:
    """A worker that has had nothing to do for longer than keys are kept."""
    witness = await given_claim(database, store)
    for table in ("attempts", "deliveries", "events"):
        database.execute(f"delete from sendonce_{table}")
    gone = "update sendonce_retention set last_id = ? where part = 'keys'"

    database.execute(gone, witness.event_id)
    assert await store.notice_loss(witness, wait=WAIT, noticed_by="host:7") is None

    database.execute(gone, witness.event_id - 1)
    assert await store.notice_loss(witness, wait=WAIT, noticed_by="host:7") is not None


async def test_loss_ends_by_itself_when_all_was_asked(database: Database, store: Store) -> None:
    await given_marked_loss(database, store)
    assert await store.end_loss() is None
    database.advance(WAIT + timedelta(seconds=1))
    lease = await given_lease(store)
    found, missing = report(lease, Delivered("n-1")), report(lease, Failed("503"), of=1, cleared=True)
    unanswered = report(lease, Deferred("down", again_in=timedelta(0)), of=2)

    await store.settle(decided([found, missing], POLICY, can_look_up=True))
    assert await store.end_loss() is None, "one was not asked about yet"
    await store.settle(decided([unanswered], POLICY, can_look_up=True))
    assert await store.end_loss() is None, "one got no answer yet"
    database.advance(timedelta(minutes=1))
    lease = await given_lease(store)
    await settle_with(store, lease, Delivered("n-2"))

    loss = await store.end_loss()
    assert loss is not None
    assert (loss.ended_by, loss.doubted) == ("sendonce worker", 3)
    assert loss.ended_at is not None
    assert (await store.status()).loss is None
    assert await store.end_loss() is None


async def test_doubt_from_before_a_loss_does_not_keep_it_open(database: Database, store: Store) -> None:
    own = given_due_delivery(database)
    lease = await given_lease(store)
    await settle_with(
        store, lease, Unknown("timeout"), replace(POLICY, doubt_wait=timedelta(hours=2)), can_look_up=True
    )
    await given_marked_loss(database, store)
    database.advance(WAIT + timedelta(seconds=1))
    lease = await given_lease(store)
    assert own not in [claim.delivery_id for claim in lease.claims]

    await settle_with(store, lease, Delivered("n-1"))

    assert await store.end_loss() is not None
    row = await store.delivery(own)
    assert row is not None
    assert row.in_doubt


async def test_loss_denied_by_a_person_sends_at_once(database: Database, store: Store) -> None:
    own = given_due_delivery(database)
    lease = await given_lease(store)
    [doubtful] = decided([report(lease, Unknown("timeout"))], replace(POLICY, doubt_wait=timedelta(hours=2)))
    await store.settle([doubtful])
    tomorrow = database.now() + timedelta(days=1)
    scheduled = given_due_delivery(database, deliver_at=tomorrow)
    await given_marked_loss(database, store)

    loss = await store.disprove_loss(operator="ada", reason="restored before anything was sent")

    assert loss is not None
    assert (loss.ended_by, (await store.status()).loss) == ("ada", None)
    claims = (await given_lease(store)).claims
    assert [claim.in_doubt for claim in claims] == [False] * 3
    assert own not in [claim.delivery_id for claim in claims]
    rows = {row.id: row for row in [await store.delivery(each) for each in (own, scheduled)] if row}
    assert (rows[own].in_doubt, rows[scheduled].in_doubt) == (True, False), "its own doubt stays"
    assert rows[scheduled].next_attempt_at == tomorrow
    assert await store.disprove_loss(operator="ada", reason="again") is None
    assert [row["kind"] for row in database.rows("operations")] == ["nothing_lost"]


@pytest.mark.parametrize("outcome", [Unknown("timeout"), Accepted("n-1")], ids=repr)
async def test_doubt_of_its_own_outlives_a_loss_that_was_none(
    database: Database, store: Store, outcome: Outcome
) -> None:
    await given_marked_loss(database, store)
    database.advance(WAIT + timedelta(seconds=1))
    lease = await given_lease(store)
    await settle_with(store, lease, outcome, replace(POLICY, max_attempts=9))

    await store.disprove_loss(operator="ada", reason="nothing was lost")

    rows = [await store.delivery(claim.delivery_id) for claim in lease.claims]
    assert [row.in_doubt for row in rows if row] == [True] * 3


async def test_doubt_by_a_person_stays_when_a_loss_was_none(database: Database, store: Store) -> None:
    """Whoever restored a backup knows more than the worker that noticed it."""
    await given_marked_loss(database, store)
    await store.doubt(0, 100, wait=timedelta(hours=2))

    await store.disprove_loss(operator="ada", reason="nothing was lost")

    assert [bool(row["in_doubt"]) for row in database.rows("deliveries") if row["status"] == "Pending"] == [True] * 3
    assert (await store.start(WORKER, 10, HOLD)).lease is None


async def test_attempt_under_a_lease_that_is_gone_is_taken_over(database: Database, store: Store) -> None:
    flying = await given_delivery_in(database, store, DeliveryState.IN_PROGRESS)
    orphan = given_due_delivery(database)
    lease = await given_lease(store)
    database.execute("delete from sendonce_leases where id = ?", lease.id)
    asked = replace(POLICY, doubt_wait=timedelta(0))

    first, last = await store.adopt(0, 1, lambda reports: decided(reports, asked))
    second, end = await store.adopt(flying, 10, lambda reports: decided(reports, asked))

    assert (first, last) == ([], flying)
    assert ([each.report.claim.delivery_id for each in second], end) == ([orphan], orphan)
    row = await store.delivery(orphan)
    assert row is not None
    assert (row.status, row.in_doubt) == (DeliveryState.PENDING_RETRY, True)
    assert (await store.adopt(orphan, 10, lambda reports: decided(reports, asked))) == ([], None)
    assert await settle_with(store, lease, Delivered("n-1")) == [Verdict.LATE]


async def test_lease_under_which_something_is_being_sent_is_not_released(database: Database, store: Store) -> None:
    given_due_deliveries(database, 2)
    lease = await given_lease(store)
    await store.settle(decided([report(lease, Delivered("n-1"))]))

    await store.release([lease.id])
    assert database.one("select count(*) from sendonce_leases") == 1
    await store.settle(decided([report(lease, Delivered("n-2"), of=1)]))
    await store.release([lease.id])

    assert database.one("select count(*) from sendonce_leases") == 0


@pytest.mark.parametrize(
    "other",
    [
        {"tenant": "another"},
        {"type": "another.type"},
        {"key": "of another life"},
        {"destination": "null:b"},
        {"corrections": 1},
        {"generation": 1},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_late_answer_proves_no_stranger_that_has_its_number(
    database: Database, store: Store, other: dict[str, Any]
) -> None:
    """After lost commits a row's number is given to another one; the answer of the life before must not complete it."""
    stranger = given_due_delivery(database, to="null:a")
    lease = await given_lease(store)
    await settle_with(store, lease, Failed("503"))
    lost_claim = lease.claims[0]._replace(**other)
    told = decided([report(lease._replace(claims=(lost_claim,), id=lease.id + 1), Delivered("n-1"))])

    assert await store.settle(told) == [Verdict.LATE]

    row = await store.delivery(stranger)
    assert row is not None
    assert (row.status, row.proven_at) == (DeliveryState.PENDING_RETRY, None)


async def test_lease_ids_are_never_given_out_twice(database: Database, store: Store) -> None:
    ids = []
    for _ in range(5):
        given_due_delivery(database)
        ids.append((await given_lease(store)).id)

    assert len(set(ids)) == 5
    assert all(abs(later - earlier) > 1 for earlier, later in pairwise(ids))
    assert max(ids) < 2**53, "as many as every reader of JSON can hold"


async def given_loss(database: Database, store: Store) -> LossRow:
    """A loss that is noticed now, everything marked."""
    witness = Witness(10**6, 1, 7, 10**6, database.now())
    loss = await store.notice_loss(witness, wait=WAIT, noticed_by="host:7")
    while await store.mark_loss(100):
        continue
    assert loss is not None
    return loss


async def given_doubt(database: Database, store: Store) -> None:
    """A person who says the same."""
    assert not [each async for each in open_in_doubt(store, operator="ada", reason="restored") if each.changed]


async def test_dead_letter_from_before_a_loss_is_asked_about_before_a_resend(database: Database, store: Store) -> None:
    """A person may have requeued it in the time that is lost, and it was sent."""
    given_up = [await given_dead_letter(database, store) for _ in range(3)]
    loss = await given_loss(database, store)

    opened = [
        *(await store.open_generations(given_up[:1], kind="requeue", operator="ada", reason="x")).ids,
        *(await store.open_generations(given_up[1:2], kind="replay", operator="ada", reason="x")).ids,
    ]
    done = await finish(store, await begun(store, REQUEUE, Filter(even_if_sent=True)))
    opened.append(database.one("select max(id) from sendonce_deliveries"))

    rows = [await store.delivery(each) for each in opened]
    assert done.affected == 1
    assert [(row.in_doubt, row.if_unsure, row.not_before) for row in rows if row] == [
        (True, "resend", loss.noticed_at + WAIT)
    ] * 3
    assert (await store.start(WORKER, 10, HOLD)).lease is None, "it may be on its way still, or not be found yet"
    database.advance(WAIT + timedelta(seconds=1))
    assert [claim.in_doubt for claim in (await given_lease(store)).claims] == [True] * 3


@pytest.mark.parametrize("said", [given_loss, given_doubt], ids=["noticed", "said"])
async def test_dead_letter_from_before_a_loss_takes_a_decision_to_resend(
    database: Database, store: Store, said: Callable[[Database, Store], Awaitable[object]]
) -> None:
    old = await given_dead_letter(database, store)
    [letter] = await store.dead_letters(Filter())
    assert not letter.in_doubt
    await said(database, store)
    again = "may have been sent already"
    who: dict[str, Any] = {"operator": "ada", "reason": "x"}

    with pytest.raises(NotAllowed, match=again):
        await requeue(store, [letter.id], **who)
    with pytest.raises(NotAllowed, match=again):
        await replay(store, [old], **who)
    with pytest.raises(NotAllowed, match=again):
        await correct(store, old, payload={"n": 2}, **who)
    with pytest.raises(NotAllowed, match=again):
        await store.correct(old, content='{"n": 2}', destination=None, **who)
    for kind in (REQUEUE, REPLAY):
        done = await finish(store, await begun(store, kind, Filter()))
        assert (done.affected, done.skipped) == (0, 1)
        planned = await plan(store, kind, Filter())
        assert (planned.matching, planned.may_have_arrived) == (1, 1)
    told = await explain(store, f"delivery:{old}")
    assert "it may have been sent since then: this database has lost commits" in "\n".join(told.sentences)
    assert [(each.verb, each.id, dict(each.given)) for each in told.advice] == [
        ("correct", letter.id, {}),
        ("attest", letter.id, {}),
        ("requeue", letter.id, {"even_if_sent": True}),
    ]

    [letter] = await store.dead_letters(Filter())
    assert letter.in_doubt
    [opened] = await requeue(store, [letter.id], **who, even_if_sent=True)
    row = await store.delivery(opened.delivery_id)
    assert row is not None
    assert (opened.may_repeat, row.in_doubt) == (True, True)


@pytest.mark.parametrize("said", [given_loss, given_doubt], ids=["noticed", "said"])
async def test_dead_letter_from_after_a_loss_is_requeued_as_always(
    database: Database, store: Store, said: Callable[[Database, Store], Awaitable[object]]
) -> None:
    await said(database, store)
    await given_dead_letter(database, store)

    [letter] = await store.dead_letters(Filter())
    [opened] = await requeue(store, [letter.id], operator="ada", reason="x")

    row = await store.delivery(opened.delivery_id)
    assert row is not None
    assert (letter.in_doubt, opened.may_repeat, row.in_doubt, row.if_unsure) == (False, False, False, None)


async def test_dead_letter_from_before_a_loss_takes_a_decision_in_any_generation(
    database: Database, store: Store
) -> None:
    await given_doubt(database, store)
    await given_dead_letter(database, store)
    await given_doubt(database, store)

    assert [letter.in_doubt for letter in await store.dead_letters(Filter())] == [True]


async def test_dead_letter_from_before_a_loss_that_was_none_is_requeued_as_always(
    database: Database, store: Store
) -> None:
    await given_dead_letter(database, store)
    await given_loss(database, store)
    await store.disprove_loss(operator="ada", reason="nothing was lost")

    [letter] = await store.dead_letters(Filter())
    [opened] = await requeue(store, [letter.id], operator="ada", reason="x")

    assert (letter.in_doubt, opened.may_repeat) == (False, False)


async def test_delivery_completed_before_a_loss_is_replayed_without_asking(database: Database, store: Store) -> None:
    """Asking would find what was delivered then, and nothing would be sent."""
    done = await given_delivery_in(database, store, DeliveryState.COMPLETED)
    await given_loss(database, store)

    [opened] = (await store.open_generations([done], kind="replay", operator="ada", reason="x")).ids

    row = await store.delivery(opened)
    assert row is not None
    assert (row.in_doubt, row.not_before) == (False, None)
