"""Requests for those who look: a status that is derived from the newest deliveries of the required recipients."""

from typing import Any

import pytest

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.destinations import destination_hash
from sendonce.domain.outcomes import Delivered, Failed, Outcome, Refused
from sendonce.domain.requests import RequestState, RequestStatus
from sendonce.outbox.outbox import Outbox
from sendonce.store import requests as request_verbs
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from tests.given import given_lease, result
from tests.store.databases import Database


def given_request(database: Database, **changed: Any) -> int:
    """Record and commit a request; its id."""
    usual: dict[str, Any] = {"key": "job-1", "subject": "cl-7", "version": 3, "required": ["null:ada", "null:bob"]}
    with database.connection() as connection:
        return Outbox().request(connection, "review.finished", {}, **(usual | changed)).request_id


async def settle(store: Store, outcomes: dict[str, Outcome]) -> None:
    """Claim everything that is due, and end the attempts by destination; the others stay in flight."""
    lease = await given_lease(store)
    places = {claim.destination: place for place, claim in enumerate(lease.claims)}
    await store.settle([result(lease, outcome, of=places[to]) for to, outcome in outcomes.items()])


async def state_of(store: Store, request_id: int) -> RequestState:
    state = await store.request(request_id)
    assert state is not None
    return state


async def status_of(store: Store, request_id: int) -> RequestStatus:
    """By the state and by the list, which must agree."""
    [row] = [each for each in await store.requests(Filter()) if each.id == request_id]
    state = await state_of(store, request_id)
    assert row.status is state.status
    return state.status


SENT, REFUSED, FAILED = Delivered("n-1"), Refused("410"), Failed("503")


@pytest.mark.parametrize(
    ("ada", "bob", "optional", "status", "counts"),
    [
        (None, None, SENT, "in_progress", (0, 2, 0)),
        (SENT, None, SENT, "in_progress", (1, 1, 0)),
        (SENT, FAILED, REFUSED, "in_progress", (1, 1, 0)),
        (REFUSED, None, REFUSED, "in_progress", (0, 1, 1)),
        (REFUSED, SENT, None, "retryable_failed", (1, 0, 1)),
        (REFUSED, REFUSED, SENT, "retryable_failed", (0, 0, 2)),
        (SENT, SENT, None, "succeeded", (2, 0, 0)),
        (SENT, SENT, REFUSED, "succeeded", (2, 0, 0)),
    ],
)
async def test_R12_status_goes_by_the_required_recipients_only(
    database: Database,
    store: Store,
    ada: Outcome | None,
    bob: Outcome | None,
    optional: Outcome | None,
    status: str,
    counts: tuple[int, int, int],
) -> None:
    request_id = given_request(database, optional="null:eve")
    outcomes = {"null:ada": ada, "null:bob": bob, "null:eve": optional}
    await settle(store, {to: outcome for to, outcome in outcomes.items() if outcome is not None})

    assert await status_of(store, request_id) == status
    [row] = await store.requests(Filter())
    assert (row.notified, row.open, row.given_up) == counts
    assert row.required == 2


async def test_R12_state_shows_each_recipient_with_what_became_of_it(database: Database, store: Store) -> None:
    request_id = given_request(database, optional="null:eve", tenant="acme")
    await settle(store, {"null:ada": Delivered("n-1"), "null:bob": Refused("410"), "null:eve": Failed("503")})

    state = await state_of(store, request_id)
    ada, bob, eve = state.recipients

    assert (state.id, state.tenant, state.type, state.subject, state.version) == (
        request_id, "acme", "review.finished", "cl-7", 3
    )  # fmt: skip
    assert abs((state.created_at - database.now()).total_seconds()) < 60
    assert (ada.status, ada.notification_id, ada.final_error_code) == (DeliveryState.COMPLETED, "n-1", None)
    assert (bob.status, bob.notification_id, bob.final_error_code) == (DeliveryState.DEAD_LETTERED, None, "410")
    assert (eve.status, eve.is_required, eve.attempt_count) == (DeliveryState.PENDING_RETRY, False, 1)
    assert ada.notified_at is not None
    assert abs((ada.notified_at - database.now()).total_seconds()) < 60
    assert bob.notified_at is eve.notified_at is None


async def test_R15_requeue_is_what_the_status_goes_by_from_then_on(database: Database, store: Store) -> None:
    request_id = given_request(database)
    await settle(store, {"null:ada": Refused("410"), "null:bob": Delivered("n-2")})
    failed = await state_of(store, request_id)
    dead = next(each.delivery_id for each in failed.recipients if each.notified_at is None)

    await store.open_generations([dead or 0], kind="requeue", operator="ada", reason="address is back")
    open_again = await state_of(store, request_id)
    await settle(store, {"null:ada": Delivered("n-3")})

    assert failed.status is RequestStatus.RETRYABLE_FAILED
    assert open_again.status is RequestStatus.IN_PROGRESS
    assert open_again.recipients[0].delivery_id != dead
    assert await status_of(store, request_id) is RequestStatus.SUCCEEDED
    assert (await state_of(store, request_id)).recipients[0].notification_id == "n-3"


async def test_R6_version_has_a_status_of_its_own(database: Database, store: Store) -> None:
    first = given_request(database)
    await settle(store, {"null:ada": Delivered("n-1"), "null:bob": Delivered("n-2")})
    second = given_request(database, key="job-2", version=4, rerun=True)

    assert await status_of(store, first) is RequestStatus.SUCCEEDED
    assert await status_of(store, second) is RequestStatus.IN_PROGRESS


async def test_corrected_recipient_is_followed(database: Database, store: Store) -> None:
    """What a correction leaves behind: a delivery of the same event, and the recipient's hash pointing to it."""
    new_hash = NEW_HASH[type(database).__name__]
    request_id = given_request(database, required="null:ada")
    await settle(store, {"null:ada": Refused("410")})
    database.execute(
        "insert into sendonce_deliveries (event_id, created_at, updated_at, next_attempt_at, destination,"
        " destination_hash) select event_id, created_at, updated_at, created_at, 'null:adele',"
        f" {new_hash} from sendonce_deliveries"
    )
    database.execute(f"update sendonce_recipients set destination_hash = {new_hash}")

    state = await state_of(store, request_id)

    assert state.status is RequestStatus.IN_PROGRESS
    assert [(each.destination, each.sent_to) for each in state.recipients] == [("null:ada", "null:adele")]


NEW_HASH = {
    "SqliteDatabase": f"x'{destination_hash('null:adele').hex()}'",
    "PostgresDatabase": f"'{destination_hash('null:adele').hex()}'::uuid",
}


async def test_requests_are_listed_newest_first_and_filtered(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_verbs, "SIZES", (2, 2, 2))
    first = given_request(database)
    await settle(store, {"null:ada": Delivered("n-1"), "null:bob": Delivered("n-2")})
    other = given_request(database, key="job-2", subject="cl-8", tenant="acme")
    again = given_request(database, key="job-3", version=4, rerun=True)
    last = given_request(database, key="job-4", subject="cl-9")

    async def ids(**wanted: Any) -> list[int]:
        return [each.id for each in await store.requests(Filter(**wanted))]

    assert await ids() == [last, again, other, first]
    assert await ids(limit=3) == [last, again, other]
    assert await ids(subject="cl-7") == [again, first]
    assert await ids(subject="cl-7", status=RequestStatus.SUCCEEDED) == [first]
    assert await ids(status=RequestStatus.SUCCEEDED) == [first]
    assert await ids(tenant="acme") == [other]
    assert await ids(tenant="", limit=1) == [last]
    assert await ids(type="review.finished", limit=1) == [last]
    assert await ids(type="review.begun") == await ids(subject="cl") == []


async def test_requests_are_found_by_each_of_their_keys(database: Database, store: Store) -> None:
    made = given_request(database)
    given_request(database, key="job-2")
    other = given_request(database, key="job-2", tenant="acme")

    assert [each.id for each in await store.requests_by_key("job-1")] == [made]
    assert [each.id for each in await store.requests_by_key("job-2")] == [other, made]
    assert await store.requests_by_key("job-3") == []
    assert await store.request(99) is None
    assert await store.request(2**63) is None
