"""Lists look at a bounded number of rows: their pages together are what one long look would show."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest

from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Delivered, Failed, Outcome, Refused
from sendonce.domain.texts import provider_token
from sendonce.store import deliveries, filters
from sendonce.store.filters import Filter, Page
from sendonce.store.ports import Store
from tests.given import given_due_deliveries, given_due_delivery, given_lease, result, settle_with
from tests.store.databases import Database

Row = TypeVar("Row")
WHO = {"operator": "ada", "reason": "because"}


@pytest.fixture(params=[(1, 1), (2, 3), (500, 500)], autouse=True)
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "SIZES", request.param)
    monkeypatch.setattr(deliveries, "LOOK", sum(request.param))


async def whole(ask: Callable[[Filter], Awaitable[Page[Row]]], wanted: Filter) -> list[Row]:
    """Go on until the end."""
    page = await ask(wanted)
    found = list(page)
    while page.next_before is not None:
        assert wanted.before is None or page.next_before < wanted.before
        assert page.looked_back_to is not None
        wanted = replace(wanted, before=page.next_before)
        page = await ask(wanted)
        found += page
    assert page.looked_back_to is None
    return found


async def given_every_state(database: Database, store: Store) -> dict[DeliveryState, list[int]]:
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


@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_pages_of_each_state_are_the_whole_list(database: Database, store: Store, limit: int) -> None:
    states = await given_every_state(database, store)

    for state, ids in states.items():
        assert [row.id for row in await whole(store.deliveries, Filter(status=state, limit=limit))] == ids
    everything = sorted([each for ids in states.values() for each in ids], reverse=True)
    assert [row.id for row in await whole(store.deliveries, Filter(limit=limit))] == everything
    events = await whole(store.events, Filter(status=DeliveryState.COMPLETED, limit=limit))
    assert [row.id for row in events] == states[DeliveryState.COMPLETED]


async def test_page_has_no_more_rows_than_its_limit_and_says_where_to_go_on(database: Database, store: Store) -> None:
    ids = given_due_deliveries(database, 3)

    page = await store.deliveries(Filter(limit=1))

    assert [row.id for row in page] == [ids[2]]
    assert (page.next_before, page.looked_back_to) == (ids[2], page[0].created_at)


async def test_page_looks_at_no_more_rows_than_its_bound(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rare = given_due_delivery(database, tenant="rare")
    given_due_deliveries(database, 8)
    monkeypatch.setattr(filters, "SIZES", (2, 3))

    page = await store.deliveries(Filter(tenant="rare", status=DeliveryState.COMPLETED))
    assert (page.rows, page.next_before) == ((), rare + 4)
    oldest = await store.delivery(rare + 4)
    assert oldest is not None
    assert page.looked_back_to == oldest.created_at


async def test_parked_deliveries_are_listed_by_their_state(database: Database, store: Store) -> None:
    await store.stop("channel", "mailto", **WHO)
    held = [given_due_delivery(database, to="mailto:ada@example.com") for _ in range(3)]
    await store.start(1, 10, timedelta(seconds=10))
    other = given_due_delivery(database)

    listed = await whole(store.deliveries, Filter(status=DeliveryState.PENDING))

    assert [row.id for row in listed] == [other, *reversed(held)]
    assert [row.parked_on for row in listed] == [None, *["stop:channel:mailto"] * 3]


async def test_lists_end_at_since(database: Database, store: Store) -> None:
    given_due_deliveries(database, 3)
    lease = await given_lease(store)
    await settle_with(store, lease, Refused("410"))
    later = database.now() + timedelta(hours=1)

    for wanted in (Filter(since=later), Filter(since=later, status=DeliveryState.DEAD_LETTERED)):
        assert await store.deliveries(wanted) == Page()
    assert await store.events(Filter(since=later)) == Page()
    assert await store.dead_letters(Filter(since=later)) == Page()
    earlier = Filter(since=later - timedelta(hours=2))
    assert len(await whole(store.events, earlier)) == len(await whole(store.dead_letters, earlier)) == 3


async def test_dead_letters_are_listed_in_the_order_in_which_they_were_given_up(
    database: Database, store: Store
) -> None:
    ids = given_due_deliveries(database, 4)
    lease = await given_lease(store)
    for place in (2, 0, 3, 1):
        await store.settle([result(lease, Refused("410"), of=place)])

    listed = await whole(store.dead_letters, Filter(limit=3))

    assert [row.delivery_id for row in listed] == [ids[1], ids[3], ids[0], ids[2]]


async def test_dead_letters_go_on_where_one_was_that_is_gone(database: Database, store: Store) -> None:
    ids = given_due_deliveries(database, 3)
    await settle_with(store, await given_lease(store), Refused("410"))
    page = await store.dead_letters(Filter(limit=1))
    await store.discard([page[0].id], **WHO)
    database.execute("delete from sendonce_dead_letters where id = ?", page[0].id)

    rest = await whole(store.dead_letters, Filter(before=page.next_before))

    assert [row.delivery_id for row in rest] == [ids[1], ids[0]]


async def test_summary_counts_dead_letters_by_reason_code_and_host(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "SIZES", (500, 500))
    addresses = ["https://a.example/1", "https://a.example/2", "https://b.example/", "mailto:ada@example.com"]
    for address in addresses:
        given_due_delivery(database, to=address)
    await settle_with(store, await given_lease(store), Refused("410"))
    cancelled = given_due_delivery(database, to="https://a.example/3")
    await store.cancel([cancelled], **WHO)

    summary = await store.dead_letter_summary(Filter())
    everything = await store.dead_letter_summary(Filter(include_cancelled=True))
    of_one = await store.dead_letter_summary(Filter(destination=addresses[0]))

    refused = ReasonClass.REFUSED
    assert [(each.reason, each.error_code, each.host, each.count) for each in summary] == [
        (refused, "410", "a.example", 2),
        (refused, "410", "b.example", 1),
        (refused, "410", "mailto", 1),
    ]
    assert summary.is_end
    assert summary[0].oldest_at == summary[0].newest_at
    assert [(each.reason, each.host) for each in everything][:2] == [
        (refused, "a.example"),
        (ReasonClass.CANCELLED, "a.example"),
    ]
    assert [each.count for each in of_one] == [1]


async def test_delivery_is_found_by_its_token_on_one_of_the_pages(database: Database, store: Store) -> None:
    ids = given_due_deliveries(database, 5)
    wanted = await store.delivery(ids[1])
    assert wanted is not None
    token = provider_token(await store.namespace(), wanted.tenant, wanted.type, wanted.key, wanted.destination, 0)

    page = await store.delivery_by_token(token)
    while not page and not page.is_end:
        page = await store.delivery_by_token(token, before=page.next_before)

    assert list(page) == [wanted]
    assert (await store.delivery_by_token("0" * 40, before=ids[0])).is_end
