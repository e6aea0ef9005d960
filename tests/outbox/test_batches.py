"""publish_many: many events in one go, all or none."""

from collections.abc import Iterator

import pytest

from sendonce import Draft, Email, KeyReused, Outbox
from sendonce.outbox import entries
from sendonce.outbox.entries import render
from tests.outbox.databases import NOTHING, Address, recording

OUTBOX = Outbox()


def drafts(count: int, first: int = 0) -> list[Draft]:
    return [
        Draft("memo.created", {"n": n}, key=("memo", n), to=[f"null:{n}", Email("a@b.example", text=f"{n}")])
        for n in range(first, first + count)
    ]


def test_answers_come_in_the_order_given(address: Address) -> None:
    given = drafts(25)
    with recording(address) as connection:
        published = OUTBOX.publish_many(connection, reversed(given))

    rows = address.look("select e.id, e.payload from sendonce_events e")
    stored = {event_id: payload for event_id, payload in rows}
    assert [stored[each.event_id] for each in published] == [f'{{"n":{n}}}' for n in range(24, -1, -1)]
    contents = address.look(
        "select e.payload, c.content from sendonce_events e join sendonce_contents c on c.event_id = e.id"
    )
    assert all(f'"text": "{payload[5:-1]}"' in content for payload, content in contents)
    assert len(contents) == 25


def test_deliveries_are_due_in_the_order_given(address: Address) -> None:
    with recording(address) as connection:
        OUTBOX.publish_many(connection, [Draft("a", {}, key=key, to=f"null:{key}") for key in "cabd"])

    due = address.look("select destination from sendonce_deliveries order by next_attempt_at, id")
    assert due == [("null:c",), ("null:a",), ("null:b",), ("null:d",)]


def test_batch_without_events_is_no_work(address: Address) -> None:
    with recording(address) as connection:
        assert OUTBOX.publish_many(connection, []) == []
        assert OUTBOX.publish_many(connection, iter(())) == []


@pytest.mark.parametrize("limit", ["MOST_EVENTS", "MOST_CHARACTERS"])
def test_batch_larger_than_a_portion_is_still_all_or_nothing(
    address: Address, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(entries, limit, 10)
    with recording(address) as connection:
        OUTBOX.publish_many(connection, drafts(1, first=999))
        with pytest.raises(KeyReused):
            OUTBOX.publish_many(connection, [*drafts(35), Draft("memo.created", {}, key=("memo", 999), to=None)])
        assert address.counts() == NOTHING
        published = OUTBOX.publish_many(connection, [*drafts(35), *drafts(1, first=999), *drafts(1)])

    assert [each.duplicate for each in published] == [False] * 35 + [True, True]
    assert published[-1].event_id == published[0].event_id
    assert address.counts() == {"events": 36, "deliveries": 72, "contents": 36}


def test_batch_size_counts_what_is_sent_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MOST_CHARACTERS", 3000)
    letters = [Draft("a", {}, key=n, to=Email("a@b.example", text="x" * 1000)) for n in range(5)]
    given = [entries.Entry(event, b"") for event in (render(each, 10_000, 10) for each in letters)]

    portions = [[n for n, _ in portion] for portion in entries.chunks(enumerate(given))]

    assert portions == [[0, 1], [2, 3], [4]]


def test_batch_with_an_invalid_event_writes_nothing(address: Address) -> None:
    with recording(address) as connection, pytest.raises(Exception, match="channel"):
        OUTBOX.publish_many(connection, [*drafts(3), Draft("memo.created", {}, key="x", to="nowhere")])

    assert address.counts() == NOTHING


def test_generator_that_fails_writes_nothing(address: Address) -> None:
    def failing() -> Iterator[Draft]:
        yield from drafts(2)
        raise RuntimeError("the caller's own trouble")

    with recording(address) as connection, pytest.raises(RuntimeError, match="own trouble"):
        OUTBOX.publish_many(connection, failing())

    assert address.counts() == NOTHING
