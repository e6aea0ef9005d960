"""Publishers that meet: one key from many sides at once, and batches that wait for each other."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from sendonce import Draft, KeyReused, Outbox, Published
from tests.outbox.databases import Address, recording

OUTBOX = Outbox()
PUBLISHERS = 50
PATIENCE = 20.0


def test_publishers_of_one_key_make_one_event(address: Address) -> None:
    together = threading.Barrier(PUBLISHERS)
    settings: dict[str, Any] = {"timeout": 60} if address.dialect == "sqlite" else {}

    def publish(_: int) -> Published:
        with recording(address, **settings) as connection:
            together.wait(PATIENCE)
            return OUTBOX.publish(connection, "memo.created", {"id": 7}, key=("memo", 7), to="null:a")

    with ThreadPoolExecutor(PUBLISHERS) as threads:
        answers = list(threads.map(publish, range(PUBLISHERS)))

    assert len({each.event_id for each in answers}) == 1
    assert [each.duplicate for each in answers].count(False) == 1
    assert sum(each.deliveries for each in answers) == 1
    assert address.counts() == {"events": 1, "deliveries": 1, "contents": 0}


@contextmanager
def first_publisher(address: Address) -> Iterator[psycopg.Connection]:
    """A connection that has recorded key x and not yet ended its transaction."""
    with psycopg.connect(address.url) as first:
        OUTBOX.publish(first, "memo.created", {"id": 1}, key="x", to="null:a")
        yield first


def in_background(address: Address, work: Callable[[psycopg.Connection], Any]) -> "Future[Any]":
    """Do this on a second connection and commit it; returns when it waits for the first."""

    def run() -> Any:
        with psycopg.connect(address.url) as connection:
            return work(connection)

    thread = ThreadPoolExecutor(1)
    future = thread.submit(run)
    thread.shutdown(wait=False)
    wait_until_blocked(address)
    return future


def wait_until_blocked(address: Address) -> None:
    question = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    tick = threading.Event()
    for _ in range(int(PATIENCE / 0.02)):
        if address.look(question) == [(1,)]:
            return
        tick.wait(0.02)
    raise AssertionError("nobody waits")


def one(payload: dict[str, int], **named: Any) -> Callable[[psycopg.Connection], list[Published]]:
    return lambda connection: [OUTBOX.publish(connection, "memo.created", payload, key="x", to="null:a", **named)]


def batch(payload: dict[str, int], **named: Any) -> Callable[[psycopg.Connection], list[Published]]:
    drafts = [Draft("memo.created", payload, key=key, to="null:a") for key in ("w", "x", "y")]
    return lambda connection: OUTBOX.publish_many(connection, drafts, **named)


@pytest.mark.parametrize("level", [None, *psycopg.IsolationLevel], ids=str)
@pytest.mark.parametrize("publish", [one, batch])
def test_publisher_is_first_when_the_other_one_rolls_back(
    postgres_address: Address, publish: Callable[..., Any], level: psycopg.IsolationLevel | None
) -> None:
    def work(connection: psycopg.Connection) -> Any:
        connection.isolation_level = level
        return publish({"id": 2})(connection)

    with first_publisher(postgres_address) as first:
        future = in_background(postgres_address, work)
        first.rollback()

        assert not any(each.duplicate for each in future.result(PATIENCE))
    assert postgres_address.counts()["events"] == len(future.result())


@pytest.mark.parametrize("settings", [{"payload": {"id": 1}}, {"payload": {"id": 2}, "if_different": "keep_first"}])
@pytest.mark.parametrize("publish", [one, batch])
def test_duplicate_that_races_waits_and_is_then_read(
    postgres_address: Address, publish: Callable[..., Any], settings: dict[str, Any]
) -> None:
    with first_publisher(postgres_address) as first:
        future = in_background(postgres_address, publish(**settings))
        first.commit()
        answers = future.result(PATIENCE)

    ((event_id,),) = postgres_address.look("select id from sendonce_events where key = 'x'")
    assert [each for each in answers if each.duplicate] == [(event_id, True, 0)]
    assert postgres_address.counts()["deliveries"] == postgres_address.counts()["events"] == len(answers)


def test_key_reused_in_a_race_is_refused(postgres_address: Address) -> None:
    def work(connection: psycopg.Connection) -> None:
        with pytest.raises(KeyReused):
            one({"id": 2})(connection)
        connection.execute("insert into memos (id) values (1)")

    with first_publisher(postgres_address) as first:
        future = in_background(postgres_address, work)
        first.commit()
        future.result(PATIENCE)

    assert postgres_address.counts()["events"] == 1
    assert postgres_address.count("memos") == 1


def test_batch_that_meets_racing_different_content_must_be_run_again(postgres_address: Address) -> None:
    def work(connection: psycopg.Connection) -> None:
        with pytest.raises(psycopg.errors.SerializationFailure, match="used a key of this batch"):
            batch({"id": 2})(connection)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        connection.rollback()
        with pytest.raises(KeyReused):
            batch({"id": 2})(connection)

    with first_publisher(postgres_address) as first:
        future = in_background(postgres_address, work)
        first.commit()
        future.result(PATIENCE)

    assert postgres_address.look("select key from sendonce_events") == [("x",)]


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
@pytest.mark.parametrize("publish", [one, batch])
def test_duplicate_that_races_with_a_fixed_snapshot_must_be_run_again(
    postgres_address: Address, publish: Callable[..., Any], level: psycopg.IsolationLevel
) -> None:
    def work(connection: psycopg.Connection) -> Any:
        connection.isolation_level = level
        with pytest.raises(psycopg.errors.SerializationFailure):
            publish({"id": 1})(connection)
        connection.rollback()
        return publish({"id": 1})(connection)

    with first_publisher(postgres_address) as first:
        future = in_background(postgres_address, work)
        first.commit()

        assert [each.duplicate for each in future.result(PATIENCE)].count(True) == 1


def test_batches_in_opposite_order_do_not_lock_each_other_out(postgres_address: Address) -> None:
    together = threading.Barrier(2)

    def publish(step: int) -> None:
        with psycopg.connect(postgres_address.url) as connection:
            for turn in range(10):
                keys = [f"{turn}/{n}" for n in range(300)][::step]
                together.wait(PATIENCE)
                OUTBOX.publish_many(connection, [Draft("memo.created", {}, key=key, to=None) for key in keys])
                connection.commit()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(publish, (1, -1)))

    assert postgres_address.counts()["events"] == 3000
