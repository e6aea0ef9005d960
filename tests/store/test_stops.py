"""stop and resume: what is stopped is not claimed, and nothing of it is forgotten."""

from datetime import timedelta

import pytest

from sendonce.domain.attempts import Verdict
from sendonce.domain.outcomes import Delivered, Failed
from sendonce.errors import NotFound
from sendonce.store.ports import Store
from tests.given import HOLD, WORKER, given_due_delivery, given_event, given_lease, settle_with
from tests.store.databases import Database

S = timedelta(seconds=1)


async def claimed(store: Store) -> set[int]:
    """Everything that can be claimed now."""
    found: set[int] = set()
    started = await store.start(WORKER, 10, HOLD)
    while started.lease is not None or started.parked:
        found |= {claim.delivery_id for claim in (started.lease.claims if started.lease else ())}
        started = await store.start(WORKER, 10, HOLD)
    return found


async def a_subscription(store: Store, *, tenant: str = "", destination: str = "null:hook") -> int:
    return await store.add_subscription(
        tenant=tenant, types=["*"], destination=destination, policy=None, description=None, operator="ada"
    )


@pytest.mark.parametrize(
    ("scope", "value"),
    [("channel", "null"), ("destination", "null:a"), ("tenant", "acme")],
)
async def test_stop_holds_back_its_scope_only_and_a_resume_goes_on(
    database: Database, store: Store, scope: str, value: str
) -> None:
    held = given_due_delivery(database, to="null:a", tenant="acme")
    free = given_due_delivery(database, to="other:b", tenant="other")
    await store.stop(scope, value, operator="ada", reason="maintenance")

    assert await claimed(store) == {free}
    row = await store.delivery(held)
    assert row is not None
    assert row.parked_on == f"stop:{scope}:{value}"
    assert (await store.status()).parked == 1

    await store.resume(scope, value, operator="ada")

    assert await claimed(store) == {held}
    assert (await store.status()).parked == 0


async def test_stop_of_all_claims_nothing_and_resume_goes_on(database: Database, store: Store) -> None:
    ids = {given_due_delivery(database, to="null:a"), given_due_delivery(database, to="other:b", tenant="acme")}
    await store.stop("all", "", operator="ada", reason=None)

    stopped = await claimed(store)
    [stop] = (await store.status()).stops
    await store.resume("all", "", operator="ada")

    assert stopped == set()
    assert (stop.scope, stop.value, stop.operator, stop.reason) == ("all", "", "ada", None)
    assert await claimed(store) == ids
    assert (await store.status()).stops == ()


async def test_stop_finds_a_subscription_by_its_own_channel_and_destination(database: Database, store: Store) -> None:
    await a_subscription(store, destination="hook:one")
    await a_subscription(store, destination="null:two")
    given_event(database)
    await store.stop("channel", "hook", operator="ada", reason=None)
    await store.stop("destination", "null:two", operator="ada", reason=None)

    stopped = await claimed(store)
    await store.resume("channel", "hook", operator="ada")
    first = await claimed(store)
    await store.resume("destination", "null:two", operator="ada")
    second = await claimed(store)

    assert (len(stopped), len(first), len(second)) == (0, 1, 1)


async def test_attempt_in_flight_may_still_report_after_a_stop(database: Database, store: Store) -> None:
    given_due_delivery(database)
    lease = await given_lease(store)
    await store.stop("all", "", operator="ada", reason=None)

    assert await settle_with(store, lease, Delivered()) == [Verdict.APPLIED]


async def test_retry_is_held_back_when_it_comes_due(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    await settle_with(store, await given_lease(store), Failed("503"))
    await store.stop("destination", "null:a", operator="ada", reason=None)
    database.advance(11 * S)

    stopped = await claimed(store)
    await store.resume("destination", "null:a", operator="ada")

    assert stopped == set()
    assert await claimed(store) == {delivery_id}


async def test_stops_must_each_be_lifted(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database, tenant="acme")
    await store.stop("tenant", "acme", operator="ada", reason=None)
    await store.stop("channel", "null", operator="ada", reason=None)

    assert await claimed(store) == set()
    await store.resume("channel", "null", operator="ada")
    assert await claimed(store) == set()
    await store.resume("tenant", "acme", operator="ada")
    assert await claimed(store) == {delivery_id}


async def test_stop_twice_is_one_stop(database: Database, store: Store) -> None:
    given_due_delivery(database)
    await store.stop("channel", "null", operator="ada", reason="first")
    await store.stop("channel", "null", operator="bob", reason="second")

    await store.resume("channel", "null", operator="ada")

    assert len(await claimed(store)) == 1


async def test_resume_of_what_is_not_stopped_is_refused(store: Store) -> None:
    with pytest.raises(NotFound, match="channel null"):
        await store.resume("channel", "null", operator="ada")


async def test_stopped_deliveries_do_not_hide_the_rest(database: Database, store: Store) -> None:
    for _ in range(25):
        given_due_delivery(database, to="null:held")
    free = given_due_delivery(database, to="other:free")
    await store.stop("channel", "null", operator="ada", reason=None)

    assert await claimed(store) == {free}


async def test_stop_is_idle_once_its_work_is_parked(database: Database, store: Store) -> None:
    given_due_delivery(database)
    await store.stop("channel", "null", operator="ada", reason=None)
    await claimed(store)

    assert await store.is_idle()
