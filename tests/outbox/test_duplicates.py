"""The same key again: the first event stays, and different content is never dropped in silence."""

from typing import Any

import pytest

from sendonce import Draft, Email, KeyReused, Outbox
from tests.outbox.callers import Caller
from tests.outbox.conftest import Kind
from tests.outbox.databases import Address, recording

OUTBOX = Outbox()
FIRST: dict[str, Any] = {
    "payload": {"id": 7},
    "to": ["null:a", Email("ada@example.com", text="Saved.")],
    "subject": "memo/7",
    "version": 1,
}
DIFFERENT = {
    "payload": {"payload": {"id": 8}},
    "one destination more": {"to": ["null:a", "null:b", Email("ada@example.com", text="Saved.")]},
    "one destination less": {"to": ["null:a"]},
    "other content for a destination": {"to": ["null:a", Email("ada@example.com", text="Changed.")]},
    "subject": {"subject": "memo/8"},
    "version": {"version": 2},
}
SAME = {
    "nothing else": {},
    "keys in another order": {"payload": dict(reversed(FIRST["payload"].items()))},
    "destinations in another order and spelling": {"to": [Email("ada@EXAMPLE.com", text="Saved."), "NULL:a", "null:a"]},
    "headers and times": {"headers": {"traceparent": "00-1"}, "if_unsure": "hold"},
}


def draft(key: str = "memo-7", type: str = "memo.created", **changes: Any) -> Draft:
    return Draft(type=type, key=key, **(FIRST | changes))


async def test_event_published_again_is_a_duplicate(kind: Kind, caller: Caller) -> None:
    (first,) = await caller.publish_many([draft()])
    (again,) = await caller.publish_many([draft()])
    await caller.end("commit")
    (later,) = await caller.publish_many([draft()])
    batch = await caller.publish_many([draft(), draft(key="other"), draft(key="other")])
    await caller.end("commit")

    assert (first.duplicate, first.deliveries) == (False, 2)
    assert again == later == batch[0] == (first.event_id, True, 0)
    assert (batch[1].duplicate, batch[1].deliveries) == (False, 2)
    assert batch[2] == (batch[1].event_id, True, 0)
    assert kind.address.counts() == {"events": 2, "deliveries": 4, "contents": 2}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_duplicate_has_equal_content_and_destinations(address: Address, change: dict[str, Any]) -> None:
    with recording(address) as connection:
        (first,) = OUTBOX.publish_many(connection, [draft()])
        (again,) = OUTBOX.publish_many(connection, [draft(**change)])
        batch = OUTBOX.publish_many(connection, [draft(**change), draft(key="other")])

    assert again == batch[0] == (first.event_id, True, 0)
    assert address.counts() == {"events": 2, "deliveries": 4, "contents": 2}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_key_reused_with_different_content_is_refused_and_writes_nothing(
    address: Address, change: dict[str, Any]
) -> None:
    with recording(address) as connection:
        OUTBOX.publish_many(connection, [draft()])
        with pytest.raises(KeyReused, match=r"'memo-7' of memo\.created .* before, .*keep_first"):
            OUTBOX.publish_many(connection, [draft(**change)])
        with pytest.raises(KeyReused, match=r"'memo-7' of memo\.created .* before, .*keep_first"):
            OUTBOX.publish_many(connection, [draft(key="new"), draft(**change), draft(key="newer")])

    assert address.counts() == {"events": 1, "deliveries": 2, "contents": 1}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_event_that_was_first_is_kept_on_request(address: Address, change: dict[str, Any]) -> None:
    with recording(address) as connection:
        (first,) = OUTBOX.publish_many(connection, [draft()])
        (again,) = OUTBOX.publish_many(connection, [draft(**change)], if_different="keep_first")
        kept, new, third = OUTBOX.publish_many(
            connection, [draft(**change), draft(key="new"), draft(key="new", **change)], if_different="keep_first"
        )

    assert again == kept == (first.event_id, True, 0)
    assert third == (new.event_id, True, 0)
    assert address.counts() == {"events": 2, "deliveries": 4, "contents": 2}
    assert address.look("select distinct payload from sendonce_events") == [('{"id":7}',)]


def test_batch_with_a_reused_key_is_refused_before_anything_is_written(address: Address) -> None:
    with recording(address) as connection, pytest.raises(KeyReused, match="twice in this batch"):
        OUTBOX.publish_many(connection, [draft(key="a"), draft(), draft(payload={})])

    assert address.counts() == {"events": 0, "deliveries": 0, "contents": 0}


def test_key_belongs_to_its_type_and_tenant(address: Address) -> None:
    kinds: list[dict[str, Any]] = [{}, {"type": "memo.changed"}, {"tenant": "acme"}, {"tenant": "memo"}]
    with recording(address) as connection:
        for kind in kinds:
            assert not OUTBOX.publish_many(connection, [draft(**kind)])[0].duplicate
        batch = OUTBOX.publish_many(connection, [draft(key="b", **kind) for kind in kinds])

    assert len({each.event_id for each in batch}) == 4
    assert address.counts()["events"] == 8


def test_key_of_another_type_or_tenant_is_no_duplicate(address: Address) -> None:
    kinds: list[dict[str, Any]] = [{}, {"type": "memo.changed"}, {"tenant": "acme"}, {"tenant": "memo"}]
    with recording(address) as connection:
        first = [OUTBOX.publish_many(connection, [draft(payload=kind, **kind)])[0].event_id for kind in kinds]
        again = [OUTBOX.publish_many(connection, [draft(payload=kind, **kind)])[0] for kind in kinds]
        batch = OUTBOX.publish_many(connection, [draft(payload=kind, **kind) for kind in kinds])

    assert [each.event_id for each in again] == [each.event_id for each in batch] == first
    assert all(each.duplicate for each in (*again, *batch))
