"""Subscriptions get their delivery in the same transaction, by the event's type and tenant."""

import pytest

from sendonce import Draft
from sendonce.domain.destinations import destination_hash
from tests.outbox.callers import Caller
from tests.outbox.conftest import Kind
from tests.outbox.databases import Address
from tests.outbox.test_rows import as_bytes


def routed(address: Address, key: str) -> list[int]:
    """The subscriptions that got a delivery of this event, each row checked."""
    rows = address.look(
        "select d.subscription_id, d.destination, d.destination_hash, d.status, d.next_attempt_at is null,"
        " d.has_content from sendonce_deliveries d join sendonce_events e on e.id = d.event_id"
        " where e.key = ? and d.subscription_id is not null order by d.subscription_id",
        key,
    )
    for subscription_id, destination, hashed, status, is_parked, has_content in rows:
        assert destination == f"subscription:{subscription_id}"
        assert as_bytes(hashed) == destination_hash(destination)
        assert (status, bool(is_parked), bool(has_content)) == ("Pending", False, False)
    return [subscription_id for subscription_id, *_ in rows]


async def test_subscriptions_that_match_get_one_delivery_each(kind: Kind, caller: Caller) -> None:
    address = kind.address
    exact = address.subscribe("order.line.created")
    family = address.subscribe("order.line.*")
    wide = address.subscribe("order.*")
    everything = address.subscribe("*")
    several = address.subscribe("order.line.created", "order.*", "*")
    address.subscribe("order.line", "order.line.created.*", "order.line.create", "orders.*", "line.*")
    address.subscribe("order.*", "*", tenant="other")
    expected = [exact, family, wide, everything, several]

    published = await caller.publish("order.line.created", {}, key="a", to=["null:a", "null:b"])
    batch = await caller.publish_many(
        [
            Draft("order.line.created", {}, key="b", to="null:a"),
            Draft("order.paid", {}, key="c", to=None),
            Draft("order.paid", {}, key="d", to=None, tenant="other"),
            Draft("order.paid", {}, key="e", to=None, tenant="nobody"),
        ]
    )
    await caller.end("commit")

    assert published.deliveries == 7
    assert [each.deliveries for each in batch] == [6, 3, 1, 0]
    assert routed(address, "a") == routed(address, "b") == expected
    assert routed(address, "c") == [wide, everything, several]
    assert len(routed(address, "d")) == 1
    written = address.look("select key, routed from sendonce_events order by key")
    assert written == [("a", 7), ("b", 6), ("c", 3), ("d", 1), ("e", 0)]


@pytest.mark.parametrize(("state", "listens"), [("paused", True), ("disabled", True), ("removed", False)])
async def test_state_other_than_removed_is_no_reason_to_forget_it(
    kind: Kind, caller: Caller, state: str, listens: bool
) -> None:
    subscription_id = kind.address.subscribe("order.*", state=state)
    await caller.publish("order.paid", {}, key="a", to=None)
    await caller.publish_many([Draft("order.paid", {}, key=key, to=None) for key in ("b", "c")])
    await caller.end("commit")

    for key in ("a", "b", "c"):
        assert routed(kind.address, key) == ([subscription_id] if listens else [])


async def test_duplicate_reaches_nobody_twice(kind: Kind, caller: Caller) -> None:
    first = kind.address.subscribe("order.*")
    await caller.publish("order.paid", {}, key="a", to=None)
    await caller.end("commit")
    kind.address.subscribe("order.*")
    again = await caller.publish("order.paid", {}, key="a", to=None)
    await caller.publish_many([Draft("order.paid", {}, key=key, to=None) for key in ("a", "b")])
    await caller.end("commit")

    assert (again.duplicate, again.deliveries) == (True, 0)
    assert routed(kind.address, "a") == [first]
    assert len(routed(kind.address, "b")) == 2
