"""Lists look at a bounded number of rows: their pages together are what one long look would show."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest

from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Delivered, Failed, Outcome, Refused
from sendonce.domain.texts import provider_token
from sendonce.store import dead_letters, deliveries, filters
from sendonce.store.filters import Filter, Page
from sendonce.store.inbox import MessageFilter
from sendonce.store.ports import Store
from tests.given import (
    given_due_deliveries,
    given_due_delivery,
    given_event,
    given_lease,
    result,
    settle_with,
)
from tests.store.bulkwork import begun
from tests.store.databases import Database
from tests.store.messages import given_message, given_receipt
from tests.store.test_requests import given_request
from tests.store.test_subscriptions import subscribe

Row = TypeVar("Row")
WHO = {"operator": "ada", "reason": "because"}


@pytest.fixture(params=[(1, 1), (2, 3), (500, 500)], autouse=True)
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "SIZES", request.param)
    for module in (dead_letters, deliveries):
        monkeypatch.setattr(module, "DEARER", request.param)
    monkeypatch.setattr(filters, "NARROW", sum(request.param))


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


async def test_summary_counts_dead_letters_by_reason_code_type_and_host(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "DEARER", (500, 500))
    addresses = ["https://a.example/1", "https://a.example/2", "https://b.example/", "mailto:ada@example.com"]
    for address in addresses:
        given_due_delivery(database, to=address)
    given_due_delivery(database, to="null:a", type="memo.saved")
    await settle_with(store, await given_lease(store), Refused("410"))
    cancelled = given_due_delivery(database, to="https://a.example/3", type="memo.saved")
    await store.cancel([cancelled], **WHO)

    summary = await store.dead_letter_summary(Filter())
    everything = await store.dead_letter_summary(Filter(include_cancelled=True))
    of_one = await store.dead_letter_summary(Filter(destination=addresses[0]))

    refused = ReasonClass.REFUSED
    assert [(each.reason, each.error_code, each.type, each.host, each.count) for each in summary] == [
        (refused, "410", "memo.created", "a.example", 2),
        (refused, "410", "memo.created", "b.example", 1),
        (refused, "410", "memo.created", "mailto", 1),
        (refused, "410", "memo.saved", "null", 1),
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


async def backwards(ask: Callable[[int | None], Awaitable[Page[Row]]]) -> list[Row]:
    """All pages together, each of which has its oldest row first."""
    page = await ask(None)
    found = list(page)
    while page.next_before is not None:
        page = await ask(page.next_before)
        found = [*page, *found]
    return found


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_pages_of_an_events_deliveries_are_all_of_them(database: Database, store: Store, limit: int) -> None:
    given_due_deliveries(database, 2)
    event_id = given_event(database, to=[f"null:{each}" for each in range(5)])
    given_due_deliveries(database, 2)

    found = await backwards(lambda before: store.deliveries_of(event_id, before=before, limit=limit))

    assert [(row.id, row.destination) for row in found] == [(3 + each, f"null:{each}") for each in range(5)]


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_pages_of_attempts_findings_and_tries_are_all_of_them(
    database: Database, store: Store, limit: int
) -> None:
    delivery_id = given_due_delivery(database)
    for _ in range(3):
        await settle_with(store, await given_lease(store), Failed("503"))
        database.advance(timedelta(days=1))
    for each in range(4):
        await store.add_finding(delivery_id, kind=f"kind-{each}", details=str(each))
    message = given_message(database)
    for number in range(2, 5):
        database.execute("insert into sendonce_tries (message, number, begun_at) select message, ?, begun_at from"
                         " sendonce_tries where number = 1", number)  # fmt: skip

    attempts = await backwards(lambda before: store.attempts_of(delivery_id, before=before, limit=limit))
    findings = await backwards(lambda before: store.findings_of(delivery_id, before=before, limit=limit))
    tries = await backwards(lambda before: store.tries_of(message, before=before, limit=limit))

    assert [each.attempt for each in attempts] == [1, 2, 3]
    assert [each.details for each in findings] == ["0", "1", "2", "3"]
    assert [each.number for each in tries] == [1, 2, 3, 4]


async def test_operations_of_a_rare_state_are_looked_for_in_bounded_steps(database: Database, store: Store) -> None:
    rare = await begun(store, "requeue")
    for each in range(4):
        await store.stop("tenant", str(each), **WHO)

    page = await store.operations(state="running", limit=5)
    pages = 1
    while page.next_before is not None and not page:
        page = await store.operations(state="running", before=page.next_before, limit=5)
        pages += 1

    assert [each.id for each in page] == [rare.id]
    assert pages == (5 + sum(filters.SIZES) - 1) // sum(filters.SIZES)


async def test_subscriptions_of_a_rare_tenant_are_looked_for_in_bounded_steps(store: Store) -> None:
    rare = await subscribe(store, "*", tenant="rare")
    others = [await subscribe(store, "*", tenant="acme") for _ in range(4)]
    await store.set_subscription_state(others[0], "removed", **WHO)

    async def all_of(tenant: str | None) -> list[int]:
        page = await store.subscriptions(tenant, limit=2)
        found = list(page)
        while page.next_before is not None:
            page = await store.subscriptions(tenant, before=page.next_before, limit=2)
            found += page
        return [each.id for each in found]

    assert await all_of("rare") == [rare]
    assert await all_of("nobody") == []
    assert await all_of(None) == [*reversed(others[1:]), rare]


async def test_subscriptions_that_hold_something_back_are_found_by_what_waits(database: Database, store: Store) -> None:
    held = [await subscribe(store, "*", destination=f"null:{each}") for each in range(3)]
    await subscribe(store, "*", destination="null:other")
    for each in held:
        await store.set_subscription_state(each, "paused", **WHO)
    for _ in range(2):
        given_event(database)
    while (await store.start(1, 10, timedelta(seconds=10))).parked:
        pass

    assert sorted(each.id for each in await store.held_subscriptions(10)) == held
    assert len(await store.held_subscriptions(2)) == 2


async def test_requests_and_messages_are_listed_page_by_page(database: Database, store: Store) -> None:
    for version in range(1, 4):
        given_request(database, key=f"rare-{version}", subject="rare", version=version, rerun=version > 1)
        given_request(database, key=f"other-{version}", subject="other", version=version, rerun=version > 1)
    dead = [given_message(database, f"m-{each}", age=each) for each in range(3)]
    given_message(database, "done", status="Completed")
    for each in range(3):
        given_receipt(database, "m-1", consumer=f"c-{each}")

    requests = await whole(store.requests, Filter(subject="rare", limit=1))

    assert [(each.subject, each.version) for each in requests] == [("rare", 3), ("rare", 2), ("rare", 1)]
    found: list[int] = []
    wanted = MessageFilter(dead=True, limit=1)
    while (page := await store.messages(wanted)) or not page.is_end:
        found += [each.id for each in page]
        if page.next_before is None:
            break
        wanted = replace(wanted, before=page.next_before)
    assert found == dead[::-1]
    first = await store.receipts_of("m-1", limit=2)
    rest = await store.receipts_of("m-1", after=first[-1].consumer)
    assert [each.consumer for each in [*first, *rest]] == ["c-0", "c-1", "c-2"]
