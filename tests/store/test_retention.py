"""Retention: what goes, when, in which order, and what never does."""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from sendonce.admin.explain import explain
from sendonce.admin.prune import PrunePlan, count, prune
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Delivered, Failed, Refused
from sendonce.errors import KeyReused, NotAllowed, SendonceError
from sendonce.outbox.outbox import Outbox
from sendonce.store.bulk import CANCEL
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from sendonce.store.upkeep import REST, Reached, Stage, Step, Turn
from tests.given import given_delivery_in, given_due_delivery, given_event, given_lease, result, settle_with
from tests.store.aging import backdate, begun_earlier, without_rules
from tests.store.bulkwork import begun
from tests.store.databases import REFUSED, Database

NOW = timedelta(0)
DAY = timedelta(days=1)
ALL = [*Stage]
LETTER = Email("ada@example.com", subject="Hello", text="Dear Ada")
TABLES = ("events", "contents", "deliveries", "attempts", "dead_letters", "findings", "corrections")


async def retain(store: Store, stage: Stage, age: timedelta = NOW, **options: Any) -> Step:
    return await store.retain(stage, 0, limit=100, age=age, **options)


def counts(database: Database) -> dict[str, int]:
    return {table: len(database.rows(table)) for table in TABLES}


async def given_history(database: Database, store: Store) -> int:
    """An event with two destinations; one was given up, requeued and delivered, and has a finding. The event's id."""
    event_id = given_event(database, to=["null:a", LETTER], subject="memo 1", headers={"a": "b"}, key="memo-1")
    lease = await given_lease(store)
    await store.settle([result(lease, Refused("410"), of=0), result(lease, Delivered("n-1"), of=1)])
    [letter] = await store.dead_letters(Filter())
    await store.open_generations([letter.delivery_id], kind="requeue", operator="ada", reason="test")
    await settle_with(store, await given_lease(store), Delivered("n-2"))
    await store.add_finding(letter.delivery_id, kind="late_result", details="test")
    return event_id


async def test_M13_payloads_go_first_and_the_rest_stays(database: Database, store: Store) -> None:
    await given_history(database, store)
    before = counts(database)
    [event] = database.rows("events")

    step = await retain(store, Stage.PAYLOADS)

    [after] = database.rows("events")
    assert (step.events, step.deliveries) == (1, 0)
    assert after["content_gone_at"] is not None
    assert after == {**event, "payload": None, "headers": None, "content_gone_at": after["content_gone_at"]}
    assert [row["content"] for row in database.rows("contents")] == [None]
    assert counts(database) == before
    assert (await retain(store, Stage.PAYLOADS)).events == 0


async def test_M13_key_of_a_blanked_event_is_still_recognised(database: Database, store: Store) -> None:
    event_id = await given_history(database, store)
    await retain(store, Stage.PAYLOADS)
    await retain(store, Stage.HISTORY)
    outbox = Outbox()
    same: dict[str, Any] = {"key": "memo-1", "to": ["null:a", LETTER], "subject": "memo 1", "headers": {"a": "b"}}

    with database.connection() as connection:
        again = outbox.publish(connection, "memo.created", {"memo": 1}, **same)
        with pytest.raises(KeyReused):
            outbox.publish(connection, "memo.created", {"memo": 2}, **same)

    assert (again.event_id, again.duplicate) == (event_id, True)
    assert database.rows("deliveries") == []


async def test_M13_all_generations_go_together_with_everything_that_is_theirs(database: Database, store: Store) -> None:
    event_id = await given_history(database, store)
    other = given_due_delivery(database, key="other")

    step = await retain(store, Stage.HISTORY)

    assert (step.events, step.deliveries) == (1, 3)
    assert [row["id"] for row in database.rows("deliveries")] == [other]
    assert counts(database) == {**dict.fromkeys(TABLES, 0), "events": 2, "deliveries": 1}
    gone = database.one("select history_gone_at from sendonce_events where id = ?", event_id)
    assert gone is not None


async def test_M13_at_last_the_event_goes_and_its_key_is_free(database: Database, store: Store) -> None:
    await given_history(database, store)

    step = await retain(store, Stage.KEYS)

    assert (step.events, step.deliveries) == (1, 3)
    assert counts(database) == dict.fromkeys(TABLES, 0)
    with database.connection() as connection:
        assert not Outbox().publish(connection, "memo.created", {"memo": 9}, key="memo-1", to=None).duplicate


@pytest.mark.parametrize("state", [each for each in DeliveryState if each is not DeliveryState.COMPLETED])
async def test_M13_what_is_open_is_never_touched(database: Database, store: Store, state: DeliveryState) -> None:
    """DeadLettered is here too: its dead letter waits for a person."""
    await given_delivery_in(database, store, state)
    backdate(database, 400 * DAY)
    before = {table: database.rows(table) for table in TABLES}

    steps = [await retain(store, stage) for stage in ALL]

    assert [step.events for step in steps] == [0, 0, 0]
    assert {table: database.rows(table) for table in TABLES} == before


async def test_M13_one_open_delivery_keeps_all_of_its_event(database: Database, store: Store) -> None:
    given_event(database, to=["null:a", "null:b"])
    lease = await given_lease(store)
    await store.settle([result(lease, Delivered("n"), of=0), result(lease, Failed("503"), of=1)])
    before = counts(database)

    assert [(await retain(store, stage)).events for stage in ALL] == [0, 0, 0]
    assert counts(database) == before
    assert database.one("select payload from sendonce_events") is not None


@pytest.mark.parametrize("stage", ALL)
async def test_M13_age_counts_from_the_last_end_of_an_events_deliveries(
    database: Database, store: Store, stage: Stage
) -> None:
    old, young = (given_event(database, to="null:a") for _ in range(2))
    await settle_with(store, await given_lease(store), Delivered("n"))
    backdate(database, 40 * DAY, old, young)
    [delivery] = await store.deliveries_of(young)
    await store.open_generations([delivery.id], kind="replay", operator="ada", reason="test")
    await settle_with(store, await given_lease(store), Delivered("n"))

    step = await retain(store, stage, 30 * DAY)

    assert step == Step(young, 1, 0 if stage is Stage.PAYLOADS else 1)
    assert len(await store.deliveries_of(young)) == 2
    assert await store.payload(young) is not None


async def test_M13_dead_letter_that_was_just_decided_is_young(database: Database, store: Store) -> None:
    await given_delivery_in(database, store, DeliveryState.DEAD_LETTERED)
    backdate(database, 40 * DAY)
    [letter] = await store.dead_letters(Filter())
    await store.discard([letter.id], operator="ada", reason="test")

    assert (await retain(store, Stage.KEYS, 30 * DAY)).events == 0
    assert (await retain(store, Stage.KEYS)).events == 1


async def test_M13_event_without_deliveries_goes_by_its_own_age(database: Database, store: Store) -> None:
    given_event(database)

    assert (await retain(store, Stage.KEYS, DAY)).events == 0
    assert (await retain(store, Stage.HISTORY)).events == 0
    assert (await retain(store, Stage.KEYS)).events == 1
    assert database.rows("events") == []


async def test_M13_request_keeps_its_history_until_its_key_goes(database: Database, store: Store) -> None:
    with database.connection() as connection:
        Outbox().request(
            connection, "review.done", {"n": 1}, key="r-1", subject="change 1", version=1, required="null:a"
        )
    await settle_with(store, await given_lease(store), Delivered("n"))

    assert (await retain(store, Stage.HISTORY)).events == 0
    assert (await retain(store, Stage.PAYLOADS)).events == 1
    assert database.one("select status from sendonce_request_states") == "succeeded"
    assert (await retain(store, Stage.KEYS)).events == 1
    for table in ("requests", "request_keys", "recipients", *TABLES):
        assert database.execute(f"select 1 from sendonce_{table}") == []


async def test_M13_step_is_bounded_by_events_and_by_deliveries(database: Database, store: Store) -> None:
    thin = [given_event(database, to="null:a") for _ in range(3)]
    fat = given_event(database, to=[f"null:{n}" for n in range(20)])
    last = given_event(database, to="null:a")
    await settle_with(store, await given_lease(store, limit=100), Delivered("n"))
    steps = []
    after: int | None = 0
    while after is not None:
        steps.append(await store.retain(Stage.KEYS, after, limit=2, age=NOW))
        after = steps[-1].last_id

    assert steps == [Step(thin[1], 2, 2), Step(thin[2], 1, 1), Step(fat, 1, 20), Step(last, 1, 1), Step(None)]


async def test_M13_walk_ends_where_events_are_too_young(database: Database, store: Store) -> None:
    old, young, odd = (given_event(database) for _ in range(3))
    backdate(database, 40 * DAY, old, odd)

    assert await retain(store, Stage.KEYS, 30 * DAY) == Step(old, 1, 0)
    assert await store.retain(Stage.KEYS, old, limit=10, age=30 * DAY) == Step(None)
    assert [row["id"] for row in database.rows("events")] == [young, odd]


async def test_removal_counts_only_what_was_counted_as_delivered(database: Database, store: Store) -> None:
    """What a person has attested was not delivered by a worker; the tally that is checked goes by what was."""
    given_due_delivery(database)
    await settle_with(store, await given_lease(store), Refused("410"))
    [letter] = await store.dead_letters(Filter())
    await store.attest([letter.id], operator="ada", reason="she told me")
    given_due_delivery(database, to="null:b")
    await settle_with(store, await given_lease(store), Delivered())

    step = await retain(store, Stage.HISTORY)

    counted: dict[str, int] = {}
    for row in database.rows("counters"):
        counted[row["name"]] = counted.get(row["name"], 0) + row["amount"]
    assert step.deliveries == 3
    assert (counted["completed"], counted["removed_completed"]) == (1, 1)
    assert (counted["dead_lettered"], counted["removed_dead_lettered"]) == (1, 1)


async def test_count_removes_nothing(database: Database, store: Store) -> None:
    await given_history(database, store)
    before = {table: database.rows(table) for table in TABLES}

    found = [await store.count_old(stage, 0, limit=10, age=NOW) for stage in ALL]

    assert [(step.events, step.deliveries) for step in found] == [(1, 0), (1, 3), (1, 3)]
    assert {table: database.rows(table) for table in TABLES} == before


async def test_event_that_cannot_be_archived_stays(database: Database, store: Store) -> None:
    await given_history(database, store)
    before = {table: database.rows(table) for table in TABLES}

    def full(documents: Sequence[Mapping[str, object]]) -> None:
        raise SendonceError("no space left")

    for stage in ALL:
        with pytest.raises(SendonceError, match="no space left"):
            await retain(store, stage, archive=full)

    assert {table: database.rows(table) for table in TABLES} == before


async def test_M13_archive_holds_everything_before_it_goes(database: Database, store: Store) -> None:
    event_id = await given_history(database, store)
    kept: list[Mapping[str, Any]] = []

    await retain(store, Stage.PAYLOADS, archive=kept.extend)
    await retain(store, Stage.KEYS, archive=kept.extend)

    first, second = kept
    assert (first["stage"], first["event"]["payload"], first["event"]["id"]) == ("payloads", '{"memo":1}', event_id)
    assert "Dear Ada" in first["contents"][0]["content"]
    assert (second["stage"], second["event"]["payload"], second["request"]) == ("keys", None, None)
    given_up, sent, again = second["deliveries"]
    assert [each["generation"] for each in (given_up, sent, again)] == [0, 0, 1]
    assert given_up["dead_letter"]["closed_as"] == "requeued"
    assert [each["kind"] for each in given_up["findings"]] == ["late_result"]
    assert [each["outcome"] for each in given_up["attempts"]] == ["Refused"]
    assert (again["attempts"][0]["notification_id"], again["has_content"], sent["has_content"]) == ("n-2", False, True)


async def test_delivery_without_content_is_not_opened_again(database: Database, store: Store) -> None:
    for to in ("null:a", LETTER):
        given_event(database, to=to)
    await settle_with(store, await given_lease(store), Delivered("n"))
    await retain(store, Stage.PAYLOADS)
    before = database.rows("deliveries")

    for row in before:
        with pytest.raises(NotAllowed, match=f"the content of delivery {row['id']} is no longer kept"):
            await store.open_generations([row["id"]], kind="replay", operator="ada", reason="test")

    assert database.rows("deliveries") == before


async def test_explain_tells_what_is_no_longer_kept(database: Database, store: Store) -> None:
    event_id = await given_history(database, store)
    await retain(store, Stage.PAYLOADS)
    assert "its content was removed" in (await explain(store, "memo-1")).events[0].gone[0]

    await retain(store, Stage.HISTORY)
    told = (await explain(store, f"event:{event_id}")).sentences

    assert any("its deliveries were removed by retention" in each for each in told)


TURN = Turn(1, timedelta(minutes=1))
OTHER = Turn(2, timedelta(minutes=1))


async def take(store: Store, turn: Turn, whole: timedelta = DAY) -> int | None:
    return await store.take_turn(Stage.KEYS, turn, whole=whole)


async def test_retention_is_one_workers_turn_at_a_time(database: Database, store: Store) -> None:
    assert await take(store, TURN) == 0
    assert await take(store, OTHER) is None
    assert await store.take_turn(REST, OTHER, whole=DAY) == 0

    await store.end_turn(Stage.KEYS, TURN, wait=timedelta(hours=1))

    assert await take(store, OTHER) is None
    database.advance(timedelta(hours=2))
    assert await take(store, OTHER) == 0


async def test_turn_of_a_dead_worker_goes_on_where_it_was(database: Database, store: Store) -> None:
    events = [given_event(database) for _ in range(3)]
    assert await take(store, TURN) == 0
    assert (await store.retain(Stage.KEYS, 0, limit=2, age=NOW, turn=TURN)).last_id == events[1]

    database.advance(timedelta(minutes=2))
    assert await take(store, OTHER) == events[1]

    assert await store.retain(Stage.KEYS, events[1], limit=2, age=NOW, turn=TURN) == Step(None)
    assert [row["id"] for row in database.rows("events")] == [events[2]]


async def test_retention_begins_at_the_first_event_once_a_day(database: Database, store: Store) -> None:
    given_event(database)
    await take(store, TURN)
    await store.retain(Stage.KEYS, 0, limit=2, age=NOW, turn=TURN)
    await store.end_turn(Stage.KEYS, TURN, wait=NOW)
    assert await take(store, TURN) == 1
    await store.end_turn(Stage.KEYS, TURN, wait=NOW)

    database.advance(2 * DAY)

    assert await take(store, TURN) == 0


async def reached(store: Store) -> dict[str, Reached]:
    return {each.part: each for each in await store.retention_reached()}


async def test_retention_says_how_far_it_is_behind(database: Database, store: Store) -> None:
    begun_earlier(database, 5 * DAY)
    backdate(database, 3 * DAY, given_event(database))
    given_event(database)

    async def late(part: Stage) -> timedelta:
        return (await reached(store))[part].behind(database.now(), timedelta(hours=12))

    assert set(await reached(store)) == {"payloads", "history", "keys"}
    assert timedelta(days=2.5) <= await late(Stage.PAYLOADS) < timedelta(days=2.6)

    await store.take_turn(Stage.PAYLOADS, TURN, whole=DAY)
    assert await late(Stage.PAYLOADS) < timedelta(hours=1)  # a pass that has just begun
    begun_earlier(database, timedelta(hours=5))
    assert timedelta(hours=5) <= await late(Stage.PAYLOADS) < timedelta(hours=6)
    await store.retain(Stage.PAYLOADS, 0, limit=2, age=timedelta(hours=12), turn=TURN)

    assert await late(Stage.PAYLOADS) == timedelta(0)
    assert await late(Stage.KEYS) >= timedelta(days=2.5)


async def test_retention_with_nothing_left_is_not_behind(database: Database, store: Store) -> None:
    database.advance(3 * DAY)

    assert [each.behind(database.now(), NOW) for each in await store.retention_reached()] == [timedelta(0)] * 3


async def test_retention_is_not_behind_after_a_prune(database: Database, store: Store) -> None:
    begun_earlier(database, 5 * DAY)
    backdate(database, 3 * DAY, given_event(database))
    given_event(database)
    plan = PrunePlan(about="test", ages={Stage.PAYLOADS: DAY})

    assert [done.contents async for done in count(store, plan)] == [1]
    assert (await reached(store))["payloads"].behind(database.now(), DAY) > DAY
    assert [done.contents async for done in prune(store, plan, operator="ada", reason="x")] == [1]

    assert (await reached(store))["payloads"].behind(database.now(), DAY) == timedelta(0)


async def test_pass_that_is_going_on_is_not_moved_by_hand(database: Database, store: Store) -> None:
    given_event(database)
    await take(store, TURN)

    await store.pass_by(Stage.KEYS, 7)
    await store.end_turn(Stage.KEYS, TURN, wait=NOW)

    assert await take(store, TURN) == 0


async def test_retention_drops_old_workers_operations_and_ended_secrets(database: Database, store: Store) -> None:
    worker_id = await store.register("host:1", "1.0", 10)
    subscription_id = await store.add_subscription(
        tenant="", types=["a.b"], destination="null:a", policy=None, description=None, operator="ada",
        secrets=lambda _: {"signing": b"old"},
    )  # fmt: skip
    await store.rotate_secret(subscription_id, b"new", overlap=timedelta(minutes=1), operator="ada", reason=None)
    assert await store.drop_rest(limit=10, workers=DAY, operations=None) == 0
    database.advance(timedelta(hours=1))

    assert await store.drop_rest(limit=10, workers=None, operations=None) == 1
    assert await store.drop_rest(limit=10, workers=NOW, operations=NOW) == 3

    assert worker_id == 1
    assert database.rows("workers") == database.rows("operations") == []
    assert len(await store.kept_secrets(subscription_id)) == 1


async def test_operation_is_as_old_as_its_end(database: Database, store: Store) -> None:
    """One that is still at work, and one that has just ended, are young whenever they were begun."""
    at_work, ended = await begun(store, CANCEL), await begun(store, CANCEL)
    with without_rules(database) as connection:
        span = 30 * DAY // timedelta(microseconds=1) if isinstance(connection, sqlite3.Connection) else 30 * DAY
        connection.execute(database.spell("update sendonce_operations set created_at = created_at - ?"), (span,))
    await store.set_operation_state(ended.id, "cancelled", operator="ada", reason="test")

    dropped = await store.drop_rest(limit=10, workers=None, operations=DAY)

    assert dropped == 0
    assert {at_work.id, ended.id} <= {row["id"] for row in database.rows("operations")}


@pytest.mark.parametrize("state", [DeliveryState.IN_PROGRESS, DeliveryState.PENDING_RETRY])
async def test_database_keeps_what_belongs_to_an_open_delivery(
    database: Database, store: Store, state: DeliveryState
) -> None:
    await given_delivery_in(database, store, state)
    given_due_delivery(database, to=LETTER)

    with pytest.raises(REFUSED, match="open_history_stays"):
        database.execute("delete from sendonce_attempts")
    with pytest.raises(REFUSED, match="open_contents_stay"):
        database.execute("delete from sendonce_contents")
    with pytest.raises(REFUSED, match="events_stay_with_deliveries"):
        database.execute("delete from sendonce_events")


async def test_database_keeps_an_open_dead_letter(database: Database, store: Store) -> None:
    await given_delivery_in(database, store, DeliveryState.DEAD_LETTERED)

    with pytest.raises(REFUSED, match="open_dead_letters_stay"):
        database.execute("delete from sendonce_dead_letters")
