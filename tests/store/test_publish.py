"""What callers record, as the store sees it."""

import asyncio
from datetime import timedelta

import pytest

from sendonce.errors import KeyReused
from sendonce.outbox.outbox import Outbox
from sendonce.store.ports import Store
from tests.given import given_event
from tests.store.databases import Database


async def test_publishers_that_race_for_one_key_make_one_event(database: Database, store: Store) -> None:
    def publish() -> tuple[int, bool]:
        with database.connection() as connection:
            published = Outbox().publish(connection, "memo.created", {"memo": 1}, key="memo-1", to=["null:a", "null:b"])
        return published.event_id, published.duplicate

    answers = await asyncio.gather(*(asyncio.to_thread(publish) for _ in range(50)))

    assert len({event_id for event_id, _ in answers}) == 1
    assert [duplicate for _, duplicate in answers].count(False) == 1
    assert len(database.rows("events")) == 1
    assert len(database.rows("deliveries")) == 2


async def test_W3_same_key_again_makes_nothing_new(database: Database, store: Store) -> None:
    first = given_event(database, key="memo-1", to="null:a")
    second = given_event(database, key="memo-1", to="null:a")

    assert first == second
    assert len(await store.deliveries_of(first)) == 1


async def test_key_reused_for_other_content_is_refused(database: Database, store: Store) -> None:
    given_event(database, key="memo-1", payload={"a": 1})

    with pytest.raises(KeyReused):
        given_event(database, key="memo-1", payload={"a": 2})


async def test_event_rolled_back_was_never_there(database: Database, store: Store) -> None:
    def publish_and_fail() -> None:
        with database.connection() as connection:
            Outbox().publish(connection, "memo.created", 1, key="memo-1", to="null:a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        publish_and_fail()

    assert database.rows("events") == []
    assert (await store.start(1, 10, timedelta(minutes=1))).lease is None


async def test_delivery_is_due_in_the_moment_it_is_recorded(database: Database, store: Store) -> None:
    event_id = given_event(database, to="null:a")

    [row] = await store.deliveries_of(event_id)

    assert row.next_attempt_at is not None
    assert row.next_attempt_at <= database.now()
    assert (row.attempt_count, row.generation, row.in_doubt, row.parked_on) == (0, 0, False, None)
