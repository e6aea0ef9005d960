"""Lists that take many steps give the same as those that take one."""

from datetime import timedelta

import pytest

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.outcomes import Delivered, Failed, Outcome, Refused
from sendonce.domain.tokens import provider_token
from sendonce.store.filters import Filter
from sendonce.store.sqlite import lists
from sendonce.store.sqlite.store import SqliteStore
from tests.given import given_due_deliveries, given_due_delivery, given_lease, result, settle_with
from tests.store.databases import SqliteDatabase


@pytest.fixture(params=[1, 3, 1000], autouse=True)
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "FIRST_WINDOW", request.param)
    monkeypatch.setattr(lists, "WINDOW", request.param)


async def given_every_state(database: SqliteDatabase, store: SqliteStore) -> dict[DeliveryState, list[int]]:
    """Two deliveries of each state, mixed."""
    ids = given_due_deliveries(database, 8)
    first = await given_lease(store, limit=6)
    outcomes: list[Outcome] = [Delivered("a"), Refused("410"), Failed("503")] * 2
    await store.settle([result(first, outcome, of=place) for place, outcome in enumerate(outcomes)])
    second = await given_lease(store, limit=2)
    more = given_due_deliveries(database, 2)
    return {
        DeliveryState.COMPLETED: [ids[3], ids[0]],
        DeliveryState.DEAD_LETTERED: [ids[4], ids[1]],
        DeliveryState.PENDING_RETRY: [ids[5], ids[2]],
        DeliveryState.IN_PROGRESS: [claim.delivery_id for claim in reversed(second.claims)],
        DeliveryState.PENDING: more[::-1],
    }


async def test_each_state_is_listed_newest_first(database: SqliteDatabase, store: SqliteStore) -> None:
    states = await given_every_state(database, store)

    for state, ids in states.items():
        assert [row.id for row in await store.deliveries(Filter(status=state))] == ids
        assert [row.id for row in await store.deliveries(Filter(status=state, limit=1))] == ids[:1]
    assert [row.id for row in await store.deliveries(Filter())] == sorted(
        [id for ids in states.values() for id in ids], reverse=True
    )
    events = await store.events(Filter(status=DeliveryState.COMPLETED))
    assert [row.id for row in events] == states[DeliveryState.COMPLETED]


async def test_parked_ones_are_listed_by_their_state(database: SqliteDatabase, store: SqliteStore) -> None:
    await store.stop("channel", "mailto", operator="ada", reason=None)
    held = [given_due_delivery(database, to="mailto:ada@example.com") for _ in range(3)]
    await store.start(1, 10, timedelta(seconds=10))
    other = given_due_delivery(database)

    listed = await store.deliveries(Filter(status=DeliveryState.PENDING))

    assert [row.id for row in listed] == [other, *reversed(held)]
    assert [row.parked_on for row in listed] == [None, *["stop:channel:mailto"] * 3]


async def test_lists_end_at_since(database: SqliteDatabase, store: SqliteStore) -> None:
    given_due_deliveries(database, 3)
    lease = await given_lease(store)
    await settle_with(store, lease, Refused("410"))
    later = database.now() + timedelta(hours=1)

    for wanted in (Filter(since=later), Filter(since=later, status=DeliveryState.DEAD_LETTERED)):
        assert await store.deliveries(wanted) == []
    assert await store.events(Filter(since=later)) == []
    assert await store.dead_letters(Filter(since=later)) == []
    earlier = Filter(since=later - timedelta(hours=2))
    assert len(await store.events(earlier)) == len(await store.dead_letters(earlier)) == 3


async def test_dead_letters_are_listed_newest_first(database: SqliteDatabase, store: SqliteStore) -> None:
    ids = given_due_deliveries(database, 4)
    lease = await given_lease(store)
    for place in (2, 0, 3, 1):
        await store.settle([result(lease, Refused("410"), of=place)])

    listed = await store.dead_letters(Filter())

    assert [row.delivery_id for row in listed] == [ids[1], ids[3], ids[0], ids[2]]
    assert [row.delivery_id for row in await store.dead_letters(Filter(limit=2))] == [ids[1], ids[3]]


async def test_a_token_finds_its_delivery(database: SqliteDatabase, store: SqliteStore) -> None:
    ids = given_due_deliveries(database, 5)
    wanted = await store.delivery(ids[1])
    assert wanted is not None
    token = provider_token(await store.namespace(), wanted.tenant, wanted.type, wanted.key, wanted.destination, 0)

    assert await store.delivery_by_token(token) == wanted
    assert await store.delivery_by_token("0" * 40) is None
