"""Operations by filter: bounded steps that write how far they have come with what they did, on both databases."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from sendonce.admin import bulk
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Delivered, Failed, Outcome, Refused, Unknown
from sendonce.domain.policies import IfUnsure
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.bulk import ATTEST, CANCEL, DISCARD, PAUSED, REPLAY, REQUEUE, RUNNING
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from tests.given import POLICY, given_due_deliveries, given_due_delivery, given_lease, result, settle_with
from tests.store.bulkwork import EVERYTHING, begun, finish, given_many_dead_letters, step
from tests.store.databases import REFUSED, Database

S = timedelta(seconds=1)
HELD = replace(POLICY, if_unsure=IfUnsure.HOLD)


async def given_letters(database: Database, store: Store, amount: int) -> list[int]:
    """Deliveries that were refused."""
    ids = given_due_deliveries(database, amount)
    await settle_with(store, await given_lease(store, limit=amount), Refused("410"))
    return ids


async def given_doubtful_letter(database: Database, store: Store) -> int:
    """A dead letter that may have been sent."""
    delivery_id = given_due_delivery(database)
    await settle_with(store, await given_lease(store), Unknown("timeout"), HELD)
    row = await store.delivery(delivery_id)
    assert row is not None
    assert (row.status, row.in_doubt) == (DeliveryState.DEAD_LETTERED, True)
    return delivery_id


async def test_requeue_by_filter_opens_the_next_generation_of_each_open_dead_letter(
    database: Database, store: Store
) -> None:
    ids = await given_letters(database, store, 7)
    await store.discard([1], operator="ada", reason="not this one")

    done = await finish(store, await begun(store, REQUEUE), window=3, most=2)

    assert (done.state, done.looked, done.affected, done.skipped) == ("done", 7, 6, 0)
    assert done.finished_at is not None
    opened = database.execute("select event_id, generation, status from sendonce_deliveries where generation > 0")
    assert len(opened) == len(set(opened)) == 6
    assert {row[1:] for row in opened} == {(1, "Pending")}
    assert database.one("select count(*) from sendonce_dead_letters where closed_as = 'requeued'") == 6
    assert {row["closed_by"] for row in database.rows("dead_letters")} == {"ada"}
    assert len(ids) == 7


async def test_step_is_bounded_by_what_it_looks_at_and_by_what_it_changes(database: Database, store: Store) -> None:
    await given_letters(database, store, 10)
    operation = await begun(store, REQUEUE)

    looked_at_three = await step(store, operation, window=3, most=100)
    changed_two = await step(store, operation, window=100, most=2)

    assert (looked_at_three.looked, looked_at_three.affected, looked_at_three.last_id) == (3, 3, 3)
    assert (changed_two.looked, changed_two.affected, changed_two.last_id) == (5, 5, 5)
    assert changed_two.state == RUNNING


async def test_operation_below_one_a_second_still_does_one_each_step(database: Database, store: Store) -> None:
    await given_letters(database, store, 3)
    operation = await bulk.begin(store, REQUEUE, EVERYTHING, operator="ada", reason="slowly", rate=0.001)

    running = bulk.run(store, operation.id)
    after = await anext(running)

    assert (after.state, after.affected) == (RUNNING, 1)


async def test_operation_skips_and_counts_what_may_have_arrived(database: Database, store: Store) -> None:
    await given_doubtful_letter(database, store)
    await given_letters(database, store, 2)

    done = await finish(store, await begun(store, REQUEUE))
    again = await finish(store, await begun(store, REQUEUE, Filter(even_if_sent=True)))

    assert (done.affected, done.skipped) == (2, 1)
    assert (again.affected, again.skipped) == (1, 0)
    assert database.one("select count(*) from sendonce_deliveries where generation = 1") == 3


@pytest.mark.parametrize("kind", [REQUEUE, REPLAY, ATTEST, DISCARD])
async def test_operation_means_what_was_cancelled_only_when_asked_for(
    database: Database, store: Store, kind: str
) -> None:
    await given_letters(database, store, 2)
    await store.cancel([given_due_delivery(database)], operator="ada", reason="wrong")

    done = await finish(store, await begun(store, kind))
    asked_for = await finish(store, await begun(store, kind, Filter(reason=ReasonClass.CANCELLED)))

    assert (done.affected, done.skipped) == (2, 0)
    assert (asked_for.affected, asked_for.skipped) == (1, 0)


async def test_attest_by_filter_completes_the_next_generation_of_each_open_dead_letter(
    database: Database, store: Store
) -> None:
    doubtful = await given_doubtful_letter(database, store)
    await given_letters(database, store, 6)
    await store.discard([3], operator="ada", reason="not this one")

    done = await finish(store, await begun(store, ATTEST), window=3, most=2)

    assert (done.state, done.looked, done.affected, done.skipped) == ("done", 7, 6, 0)
    opened = database.execute("select event_id, status, in_doubt from sendonce_deliveries where generation = 1")
    assert len(opened) == len({row[0] for row in opened}) == 6
    assert {(row[1], bool(row[2])) for row in opened} == {("Completed", False)}
    assert database.one("select count(*) from sendonce_dead_letters where closed_as = 'attested'") == 6
    assert {(row["kind"], row["details"]) for row in database.rows("findings")} == {("attested", "ada: test")}
    assert database.one("select count(*) from sendonce_findings") == 6
    [newest] = [row for row in await store.deliveries(Filter()) if row.event_id == doubtful and row.generation == 1]
    assert [each.kind for each in await store.findings_of(newest.id)] == ["attested"]


async def test_discard_by_filter_closes_each_open_dead_letter(database: Database, store: Store) -> None:
    await given_doubtful_letter(database, store)
    await given_letters(database, store, 6)
    await store.attest([3], operator="bob", reason="not this one")

    done = await finish(store, await begun(store, DISCARD), window=3, most=2)

    assert (done.state, done.looked, done.affected, done.skipped) == ("done", 7, 6, 0)
    letters = sorted((row["closed_as"], row["closed_by"]) for row in database.rows("dead_letters"))
    assert letters == [("attested", "bob"), *[("discarded", "ada")] * 6]
    assert database.one("select count(*) from sendonce_deliveries where generation = 1") == 1


@pytest.mark.parametrize("kind", [ATTEST, DISCARD])
async def test_decision_by_filter_counts_what_may_have_arrived_and_leaves_none_of_it_out(
    database: Database, store: Store, kind: str
) -> None:
    await given_doubtful_letter(database, store)
    await given_letters(database, store, 2)

    planned = await bulk.plan(store, kind, EVERYTHING)
    done = await finish(store, await begun(store, kind))

    assert (planned.matching, planned.may_have_arrived, planned.skipped, planned.affected) == (3, 1, 0, 3)
    assert planned.subject == "open dead letters"
    assert (done.affected, done.skipped) == (3, 0)


@pytest.mark.parametrize("kind", [ATTEST, DISCARD])
async def test_decision_by_filter_leaves_what_others_decide_meanwhile(
    database: Database, store: Store, kind: str
) -> None:
    await given_letters(database, store, 4)
    operation = await begun(store, kind)
    await step(store, operation, most=2)
    await store.open_generations([3], kind="requeue", operator="bob", reason="mine")

    done = await finish(store, operation)

    assert (done.state, done.affected) == ("done", 3)
    assert [row["closed_as"] for row in database.rows("dead_letters")].count("requeued") == 1
    assert database.one("select count(*) from sendonce_deliveries where event_id = 3") == 2


async def test_filter_takes_what_matches_all_of_it(database: Database, store: Store) -> None:
    for arguments in (
        {"type": "order.created"},
        {"type": "order.created", "tenant": "acme"},
        {"type": "order.item.added"},
        {"type": "orders.paid"},
        {"type": "memo.created", "to": "null:b"},
        {"type": "memo.created"},
    ):
        given_due_delivery(database, **arguments)
    await settle_with(store, await given_lease(store), Refused("410"))
    expected = [
        (Filter(type="order.created"), 2),
        (Filter(type="order.*"), 3),
        (Filter(type="*"), 6),
        (Filter(type="order"), 0),
        (Filter(destination="null:b"), 1),
        (Filter(tenant="acme"), 1),
        (Filter(tenant=""), 5),
        (Filter(reason=ReasonClass.REFUSED), 6),
        (Filter(reason=ReasonClass.EXHAUSTED), 0),
        (Filter(type="memo.*", destination="null:b"), 1),
    ]
    for kind in (REQUEUE, REPLAY):
        first, upper = await store.bounds(kind)
        for wanted, amount in expected:
            if kind == REQUEUE or wanted.reason is None:
                seen = await store.match(kind, wanted, after=first, upper=upper, window=100)
                assert (len(seen.found), seen.looked) == (amount, 6), wanted
    done = await finish(store, await begun(store, REQUEUE, Filter(type="order.*")))
    assert (done.affected, done.looked) == (3, 6)


async def test_filter_by_time_is_about_when_it_was_given_up(database: Database, store: Store) -> None:
    await given_letters(database, store, 2)
    moment = database.now()
    for wanted, amount in ((Filter(since=moment + S), 0), (Filter(since=moment - 60 * S), 2)):
        seen = await store.match(REQUEUE, wanted, after=0, upper=100, window=100)
        assert len(seen.found) == amount
    for wanted, amount in ((Filter(until=moment + 60 * S), 2), (Filter(until=moment - 60 * S), 0)):
        seen = await store.match(REQUEUE, wanted, after=0, upper=100, window=100)
        assert len(seen.found) == amount


async def test_filter_that_is_kept_is_the_filter(database: Database, store: Store) -> None:
    wanted = Filter(
        type="order.*", destination="null:ä", tenant="", reason=ReasonClass.IN_DOUBT, since=database.now(),
        until=database.now(), even_if_sent=True,
    )  # fmt: skip

    operation = await begun(store, REQUEUE, wanted)

    assert operation.filter is not None
    assert Filter.read(operation.filter) == wanted


async def test_replay_by_filter_is_for_what_has_ended_and_has_no_newer_generation(
    database: Database, store: Store
) -> None:
    sent, refused, again = (given_due_delivery(database) for _ in range(3))
    lease = await given_lease(store)
    outcomes: dict[int, Outcome] = {sent: Delivered("n"), refused: Refused("410"), again: Refused("410")}
    await store.settle([result(lease, outcomes[claim.delivery_id], of=n) for n, claim in enumerate(lease.claims)])
    await store.open_generations([again], kind="requeue", operator="ada", reason="before")
    given_due_delivery(database)

    careful = await finish(store, await begun(store, REPLAY))
    bold = await finish(store, await begun(store, REPLAY, Filter(even_if_sent=True)))

    assert (careful.affected, careful.skipped) == (1, 1)
    assert (bold.affected, bold.skipped) == (1, 0)
    assert database.one("select count(*) from sendonce_deliveries where generation = 1") == 3


async def test_replay_leaves_what_was_corrected(database: Database, store: Store) -> None:
    [old] = await given_letters(database, store, 1)
    await store.correct(old, content="{}", destination="null:b", operator="ada", reason="moved")

    done = await finish(store, await begun(store, REPLAY, Filter(even_if_sent=True)))

    assert done.affected == 0


async def test_W6_cancel_by_filter_gives_up_what_waits(database: Database, store: Store) -> None:
    await given_letters(database, store, 1)
    retrying = given_due_delivery(database)
    await settle_with(store, await given_lease(store), Failed("503"))
    pending = given_due_delivery(database)

    done = await finish(store, await begun(store, CANCEL), window=2)

    assert (done.affected, done.looked) == (2, 3)
    rows = {row["delivery_id"]: row for row in database.rows("dead_letters")}
    assert {rows[each]["reason"] for each in (retrying, pending)} == {"cancelled"}
    assert {rows[each]["error_message"] for each in (retrying, pending)} == {"test"}


async def test_operation_does_not_look_at_what_it_opens(database: Database, store: Store) -> None:
    await given_letters(database, store, 3)
    operation = await begun(store, REPLAY)
    await step(store, operation, most=2)
    await settle_with(store, await given_lease(store), Refused("410"))

    done = await finish(store, operation)

    assert (done.looked, done.affected) == (3, 3)
    assert database.one("select max(generation) from sendonce_deliveries") == 1


async def test_operation_run_twice_at_once_doubles_none_and_skips_none(database: Database, store: Store) -> None:
    given_many_dead_letters(database, 60)
    other = await database.open()
    operation = await begun(store, REQUEUE)

    await asyncio.gather(finish(store, operation, most=4), finish(other, operation, most=3))

    assert database.one("select count(*) from sendonce_deliveries where generation = 1") == 60
    assert database.one("select count(distinct event_id) from sendonce_deliveries where generation = 1") == 60
    [row] = database.rows("operations")
    assert (row["affected"], row["looked"], row["state"]) == (60, 60, "done")


async def test_operation_and_a_person_with_ids_do_not_open_two(database: Database, store: Store) -> None:
    given_many_dead_letters(database, 40)
    other = await database.open()
    operation = await begun(store, REQUEUE)

    async def by_hand() -> int:
        opened = 0
        for delivery_id in range(40, 0, -1):
            try:
                await other.open_generations([delivery_id], kind="requeue", operator="bob", reason="by hand")
                opened += 1
            except NotAllowed:
                pass
        return opened

    done, opened = await asyncio.gather(finish(store, operation, most=3), by_hand())

    assert done.affected + opened == 40
    assert database.one("select count(*) from sendonce_deliveries where generation = 1") == 40


async def test_paused_operation_does_nothing_until_it_is_resumed(database: Database, store: Store) -> None:
    await given_letters(database, store, 4)
    operation = await begun(store, REQUEUE)
    await step(store, operation, most=1)

    paused = await store.set_operation_state(operation.id, PAUSED, operator="bob", reason="too fast")
    still = await step(store, operation)
    await store.set_operation_state(operation.id, RUNNING, operator="bob", reason=None)
    done = await finish(store, operation)

    assert (paused.state, still.state, still.affected) == ("paused", "paused", 1)
    assert done.affected == 4
    log = [(row["kind"], row["operator"], row["subject"]) for row in database.rows("operations")]
    assert log[1:] == [("pause", "bob", f"operation {operation.id}"), ("resume", "bob", f"operation {operation.id}")]


async def test_operation_that_has_ended_cannot_be_resumed(database: Database, store: Store) -> None:
    done = await finish(store, await begun(store, REQUEUE))
    cancelled = await begun(store, REQUEUE)
    await store.set_operation_state(cancelled.id, "cancelled", operator="ada", reason=None)
    by_ids = await store.stop("all", "", operator="ada", reason="r")

    for operation_id in (done.id, cancelled.id, by_ids.operation_id):
        with pytest.raises(NotAllowed, match=f"operation {operation_id}"):
            await store.set_operation_state(operation_id, RUNNING, operator="ada", reason=None)
    with pytest.raises(NotFound, match="no operation 99"):
        await store.set_operation_state(99, RUNNING, operator="ada", reason=None)
    assert (await step(store, cancelled)).state == "cancelled"


async def test_operation_without_matches_is_done_at_once(store: Store) -> None:
    for kind in (REQUEUE, REPLAY, CANCEL):
        done = await step(store, await begun(store, kind))
        assert (done.state, done.looked) == ("done", 0)


async def test_database_keeps_what_has_ended_in_the_log_as_it_is(database: Database, store: Store) -> None:
    await store.stop("all", "", operator="ada", reason="r")

    for change in ("operator = 'bob'", "reason = 'other'", "affected = 7", "state = 'running', finished_at = null"):
        with pytest.raises(REFUSED):
            database.execute(f"update sendonce_operations set {change}")


async def test_database_never_lets_an_operation_go_back(database: Database, store: Store) -> None:
    await given_letters(database, store, 4)
    await step(store, await begun(store, REQUEUE), most=2)

    with pytest.raises(REFUSED):
        database.execute("update sendonce_operations set last_id = 1")


async def test_operations_are_listed_newest_first(database: Database, store: Store) -> None:
    first = await begun(store, REQUEUE)
    second = await begun(store, CANCEL)
    await finish(store, second)

    assert [each.id for each in await store.operations(before=100, state=None, limit=10)] == [second.id, first.id]
    assert [each.id for each in await store.operations(before=100, state=RUNNING, limit=10)] == [first.id]
    assert [each.id for each in await store.operations(before=second.id, state=None, limit=10)] == [first.id]
    found = await store.operation(first.id)
    assert found is not None
    assert found == first
    assert await store.operation(99) is None
    assert Filter.read(first.filter or "") == EVERYTHING


async def test_operation_skips_what_has_no_content_any_more(database: Database, store: Store) -> None:
    ids = given_due_deliveries(database, 3)
    await settle_with(store, await given_lease(store, limit=3), Delivered("n-1"))
    event_id = database.one("select event_id from sendonce_deliveries where id = ?", ids[1])
    database.execute("update sendonce_events set payload = null, content_gone_at = created_at where id = ?", event_id)

    done = await finish(store, await begun(store, REPLAY, Filter(even_if_sent=True)), window=10, most=10)

    assert (done.affected, done.skipped) == (2, 1)
    assert database.one("select count(*) from sendonce_deliveries where generation = 1 and event_id = ?", event_id) == 0
