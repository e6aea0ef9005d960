"""What people look at: status, lists with each filter, and what `explain` reads."""

from datetime import timedelta

import pytest

from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Accepted, Delivered, Failed, Outcome, Refused, Unknown
from sendonce.domain.texts import provider_token
from sendonce.store import leases
from sendonce.store.filters import Filter, Page
from sendonce.store.ports import Store
from tests.given import (
    given_dead_letter,
    given_delivery_in,
    given_due_deliveries,
    given_due_delivery,
    given_event,
    given_lease,
    later,
    result,
    settle_with,
)
from tests.store.databases import Database, SqliteDatabase

HOUR = timedelta(hours=1)
S = timedelta(seconds=1)


async def test_status_counts_everything_once(database: Database, store: Store) -> None:
    database.publish_many(6)
    lease = await given_lease(store, limit=6)
    outcomes: list[Outcome] = [Delivered(), Delivered(), Failed("503"), Unknown("timeout"), Refused("410")]
    await store.settle([result(lease, outcome, of=n) for n, outcome in enumerate(outcomes)])
    given_due_delivery(database, to="parked:x")
    await store.stop("channel", "parked", operator="ada", reason="repair")
    await store.start(1, 10, HOUR)
    given_due_delivery(database, deliver_at=later(database, HOUR))
    oldest = given_due_delivery(database, deliver_at=later(database, -HOUR))
    given_due_delivery(database)

    status = await store.status()

    assert status.schema_version >= 1
    assert (status.due, status.scheduled, status.retrying) == (2, 3, 2)
    assert (status.in_flight, status.in_doubt, status.parked) == (1, 1, 1)
    assert (status.dead_letters, status.completed) == (1, 2)
    assert [stop.value for stop in status.stops] == ["parked"]
    first = await store.delivery(oldest)
    assert first is not None
    assert status.oldest_due_at == first.next_attempt_at
    assert abs(status.now - database.now()) < timedelta(minutes=1)


async def test_empty_database_has_an_empty_status(store: Store) -> None:
    status = await store.status()

    assert (status.due, status.scheduled, status.retrying, status.in_flight, status.in_doubt) == (0, 0, 0, 0, 0)
    assert (status.parked, status.dead_letters, status.completed, status.oldest_due_at) == (0, 0, 0, None)
    assert (status.workers, status.stops) == ((), ())


async def test_counters_keep_their_sums_when_they_are_rolled_up(database: Database, store: Store) -> None:
    for _ in range(3):
        given_due_deliveries(database, 2)
        await settle_with(store, await given_lease(store), Delivered())
    await given_dead_letter(database, store)
    sums = "select name, sum(amount) from sendonce_counters group by name order by name"
    before = database.execute(sums)

    assert not await store.roll_up_counters()
    assert not await store.roll_up_counters()

    assert database.execute(sums) == before
    assert database.one("select count(*) from sendonce_counters where name = 'completed'") == 1
    assert (await store.status()).completed == 6


async def test_counters_are_rolled_up_in_steps_and_it_is_said_when_there_are_more(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "ROLL_UP", 10)
    for _ in range(25):
        given_due_delivery(database)
        await settle_with(store, await given_lease(store), Delivered())

    steps = 1
    while await store.roll_up_counters():
        steps += 1

    assert steps == (1 if isinstance(database, SqliteDatabase) else 3)
    assert (await store.status()).completed == 25
    assert database.one("select count(*) from sendonce_counters") <= 10


async def test_events_are_listed_newest_first_by_each_filter(database: Database, store: Store) -> None:
    old = given_event(database, type="a.one", tenant="acme")
    middle = given_event(database, type="b.two", tenant="acme")
    new = given_event(database, type="a.one", tenant="globex")

    async def ids(**wanted: object) -> list[int]:
        return [row.id for row in await store.events(Filter(**wanted))]  # type: ignore[arg-type]

    assert await ids() == [new, middle, old]
    assert await ids(limit=2) == [new, middle]
    assert await ids(type="a.one") == [new, old]
    assert await ids(tenant="acme") == [middle, old]
    assert await ids(tenant="acme", type="a.one") == [old]
    assert await ids(since=later(database, -HOUR)) == [new, middle, old]
    assert await ids(since=later(database, HOUR)) == []
    assert await ids(type="none") == []


async def test_deliveries_are_listed_newest_first_by_each_filter(database: Database, store: Store) -> None:
    first = given_due_delivery(database, type="a.one", tenant="acme", to="null:a")
    second = given_due_delivery(database, type="b.two", tenant="acme", to="null:b")
    third = given_due_delivery(database, type="a.one", tenant="globex", to="null:a")

    async def ids(**wanted: object) -> list[int]:
        return [row.id for row in await store.deliveries(Filter(**wanted))]  # type: ignore[arg-type]

    assert await ids() == [third, second, first]
    assert await ids(limit=1) == [third]
    assert await ids(type="a.one") == [third, first]
    assert await ids(tenant="acme") == [second, first]
    assert await ids(destination="null:a") == [third, first]
    assert await ids(destination="null:a", tenant="acme") == [first]
    assert await ids(since=later(database, -HOUR)) == [third, second, first]
    assert await ids(since=later(database, HOUR)) == []


async def test_deliveries_are_listed_by_state(database: Database, store: Store) -> None:
    ids = {}
    for state in (
        DeliveryState.PENDING_RETRY,
        DeliveryState.COMPLETED,
        DeliveryState.DEAD_LETTERED,
        DeliveryState.IN_PROGRESS,
        DeliveryState.PENDING,
    ):
        ids[state] = await given_delivery_in(database, store, state)

    for state, delivery_id in ids.items():
        rows = await store.deliveries(Filter(status=state))
        assert [(row.id, row.status) for row in rows] == [(delivery_id, state)]


async def test_deliveries_that_are_parked_are_listed_as_pending(database: Database, store: Store) -> None:
    parked = given_due_delivery(database)
    await store.stop("channel", "null", operator="ada", reason=None)
    await store.start(1, 10, HOUR)
    due = given_due_delivery(database, to="other:x")

    rows = await store.deliveries(Filter(status=DeliveryState.PENDING))

    assert {row.id for row in rows} == {parked, due}


async def test_dead_letters_are_listed_open_and_newest_first_by_each_filter(database: Database, store: Store) -> None:
    refused = given_due_delivery(database, type="a.one", tenant="acme", to="null:a")
    await settle_with(store, await given_lease(store), Refused("410", "gone"))
    cancelled = given_due_delivery(database, type="b.two", tenant="globex", to="null:b")
    await store.cancel([cancelled], operator="ada", reason="wrong")

    async def ids(**wanted: object) -> list[int]:
        return [row.delivery_id for row in await store.dead_letters(Filter(**wanted))]  # type: ignore[arg-type]

    assert await ids() == [refused]
    assert await ids(include_cancelled=True) == [cancelled, refused]
    assert await ids(include_cancelled=True, limit=1) == [cancelled]
    assert await ids(reason=ReasonClass.CANCELLED) == [cancelled]
    assert await ids(reason=ReasonClass.REFUSED) == [refused]
    assert await ids(reason=ReasonClass.EXPIRED) == []
    assert await ids(type="b.two") == []
    assert await ids(type="b.two", include_cancelled=True) == [cancelled]
    assert await ids(type="b.*", include_cancelled=True) == [cancelled]
    assert await ids(tenant="acme") == [refused]
    assert await ids(destination="null:b", include_cancelled=True) == [cancelled]
    assert await ids(since=later(database, -HOUR)) == [refused]
    assert await ids(since=later(database, HOUR)) == []
    assert await ids(until=later(database, HOUR)) == [refused]
    assert await ids(until=later(database, -HOUR)) == []
    letter = await store.dead_letter_of(refused)
    assert letter is not None
    assert await store.dead_letter(letter.id) == letter
    assert (letter.reason, letter.error_code, letter.error_message) == (ReasonClass.REFUSED, "410", "gone")
    assert (letter.tenant, letter.type, letter.destination, letter.generation) == ("acme", "a.one", "null:a", 0)


async def test_read_of_what_does_not_exist_is_none_or_empty(store: Store) -> None:
    assert await store.event(10**9) is None
    assert await store.delivery(10**9) is None
    assert await store.dead_letter(10**9) is None
    assert await store.dead_letter_of(10**9) is None
    assert await store.lease_of(10**9) is None
    assert not await store.delivery_by_token("f" * 40)
    assert await store.events_by_key("nobody") == []
    for read in (store.attempts_of, store.findings_of, store.evidence_of, store.tries_of, store.deliveries_of):
        assert await read(10**9) == Page()


async def test_event_is_found_by_its_key_in_every_type_and_tenant(database: Database, store: Store) -> None:
    ids = {
        given_event(database, key="same", type="a.one"),
        given_event(database, key="same", type="b.two"),
        given_event(database, key="same", type="a.one", tenant="acme"),
    }
    given_event(database, key="other")

    rows = await store.events_by_key("same")

    assert {row.id for row in rows} == ids
    assert {(row.type, row.tenant) for row in rows} == {("a.one", ""), ("b.two", ""), ("a.one", "acme")}


async def test_event_reads_as_it_was_recorded(database: Database, store: Store) -> None:
    event_id = given_event(
        database, type="a.one", payload={"ü": 1}, key="k", tenant="acme", subject="s", version=2, headers={"h": "v"}
    )

    row = await store.event(event_id)

    assert row is not None
    assert (row.tenant, row.type, row.key, row.subject, row.version) == ("acme", "a.one", "k", "s", 2)
    assert row.headers == '{"h": "v"}'
    assert await store.payload(event_id) == '{"ü":1}'
    assert await store.payload(event_id + 1) is None
    assert row.created_at.utcoffset() is not None


async def test_delivery_is_found_by_its_token_the_newest_generation_first(database: Database, store: Store) -> None:
    given_due_delivery(database, key="other")
    event_id = given_event(database, key="schlüssel", tenant="acme", to=["null:ä", "null:b"])
    namespace = await store.namespace()
    token = provider_token(namespace, "acme", "memo.created", "schlüssel", "null:ä", 0)

    [found] = await store.delivery_by_token(token)
    await settle_with(store, await given_lease(store), Delivered())
    acted = await store.open_generations([found.id], kind="replay", operator="ada", reason="again")
    [again] = await store.delivery_by_token(token)

    assert (found.event_id, found.destination) == (event_id, "null:ä")
    assert again.id == acted.ids[0]


async def test_database_has_a_namespace_of_its_own_that_stays(database: Database, store: Store) -> None:
    other = await database.open()

    assert len(await store.namespace()) >= 32
    assert await other.namespace() == await store.namespace()


async def test_whole_history_of_a_delivery_can_be_read(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database, if_unsure="resend", expires_at=later(database, HOUR))
    await settle_with(store, await given_lease(store), Failed("503", "down", response="<html>"))
    database.advance(11 * S)
    await settle_with(store, await given_lease(store), Accepted("n-1"))
    database.advance(31 * S)
    lease = await given_lease(store)

    row = await store.delivery(delivery_id)
    attempts = await store.attempts_of(delivery_id)
    held = await store.lease_of(delivery_id)

    assert row is not None
    assert (row.status, row.attempt_count, row.in_doubt) == (DeliveryState.IN_PROGRESS, 2, True)
    assert (row.final_error_code, row.notification_id, row.if_unsure) == ("503", "n-1", "resend")
    assert row.expires_at is not None
    assert [(each.attempt, each.outcome) for each in attempts] == [(1, "Failed"), (2, "Accepted"), (3, None)]
    assert (attempts[0].error_message, attempts[0].response) == ("down", "<html>")
    assert held is not None
    assert held.id == lease.id
    assert held.expires_at > held.created_at
