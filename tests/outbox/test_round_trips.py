"""One round trip per event and per batch, a second only for what raced or was there before."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from sendonce import Draft, Email, Outbox
from sendonce.outbox import entries
from tests.outbox.databases import Address

OUTBOX = Outbox()
TO: list[str | Email] = ["null:a", Email("ada@example.com", text="Saved.")]


class Counting(psycopg.Cursor[Any]):
    executed = 0

    def execute(self, *arguments: Any, **named: Any) -> Any:
        Counting.executed += 1
        return super().execute(*arguments, **named)


@pytest.fixture
def connection(postgres_address: Address) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_address.url, cursor_factory=Counting, row_factory=dict_row) as connection:
        yield connection


@contextmanager
def round_trips(expected: int) -> Iterator[None]:
    before = Counting.executed
    yield
    assert Counting.executed - before == expected


def drafts(*keys: str) -> list[Draft]:
    return [Draft("memo.created", {}, key=key, to=TO) for key in keys]


def test_event_takes_one_and_a_duplicate_two(connection: psycopg.Connection[Any]) -> None:
    with round_trips(1):
        OUTBOX.publish(connection, "memo.created", {}, key="a", to=TO)
    with round_trips(2):
        OUTBOX.publish(connection, "memo.created", {}, key="a", to=TO)


def test_batch_takes_one_with_duplicates_in_it_too(connection: psycopg.Connection[Any]) -> None:
    with round_trips(1):
        OUTBOX.publish_many(connection, drafts(*map(str, range(1000))))
    with round_trips(1):
        OUTBOX.publish_many(connection, drafts("new", "1", "2", "2"))


def test_larger_batch_takes_one_per_portion_and_a_savepoint(
    connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "MOST_EVENTS", 10)
    with round_trips(3 + 2):
        OUTBOX.publish_many(connection, drafts(*map(str, range(25))))


def test_event_that_is_invalid_takes_no_round_trip(connection: psycopg.Connection[Any]) -> None:
    with round_trips(0), pytest.raises(Exception, match="event type"):
        OUTBOX.publish(connection, "", {}, key="a", to=None)
