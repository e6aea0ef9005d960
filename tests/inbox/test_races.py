"""One message at two consumers' processes at once, at every isolation level, and batches that meet."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from tests.inbox.handling import EFFECT, INBOX, effects, receipts
from tests.outbox.databases import Address, recording, sqlite_connection
from tests.outbox.test_races import in_background

pytestmark = pytest.mark.requirement("P5")

PROCESSES = 30
PATIENCE = 100.0
LEVELS = [None, *psycopg.IsolationLevel]
WITH_SNAPSHOT = [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE]


def handled(connection: Any, message_id: str = "m-1") -> bool:
    """Handle the message in this transaction; whether it was the first."""
    with INBOX.once(connection, "mailer", message_id) as first:
        if first:
            connection.execute(EFFECT.format("(select count(*) from memos)"))
    return bool(first)


def test_message_at_many_consumers_at_once_is_handled_by_one(address: Address) -> None:
    together = threading.Barrier(PROCESSES)
    settings: dict[str, Any] = {"timeout": 60} if address.dialect == "sqlite" else {}

    def consume(_: int) -> bool:
        with recording(address, **settings) as connection:
            together.wait(PATIENCE)
            return handled(connection)

    with ThreadPoolExecutor(PROCESSES) as threads:
        firsts = list(threads.map(consume, range(PROCESSES)))

    assert firsts.count(True) == 1
    assert effects(address) == 1
    assert receipts(address) == [("mailer", "m-1", PROCESSES - 1, None)]


@contextmanager
def first_consumer(address: Address) -> Iterator[psycopg.Connection]:
    """A connection that has handled the message and not yet ended its transaction."""
    with psycopg.connect(address.url) as first:
        assert handled(first)
        yield first


def at(level: psycopg.IsolationLevel | None, work: Callable[[Any], Any] = handled) -> Callable[[Any], Any]:
    """The work in a transaction whose snapshot is taken before the message is met, where the level has one."""

    def leveled(connection: psycopg.Connection) -> Any:
        connection.isolation_level = level
        connection.execute("select 1 from memos")
        return work(connection)

    return leveled


def test_consumer_waits_and_then_sees_that_it_is_done(postgres_address: Address) -> None:
    with first_consumer(postgres_address) as first:
        future = in_background(postgres_address, at(None))
        first.commit()

        assert future.result(PATIENCE) is False
    assert effects(postgres_address) == 1


@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_consumer_is_the_first_when_the_other_one_rolls_back(
    postgres_address: Address, level: psycopg.IsolationLevel | None
) -> None:
    with first_consumer(postgres_address) as first:
        future = in_background(postgres_address, at(level))
        first.rollback()

        assert future.result(PATIENCE) is True
    assert effects(postgres_address) == 1


@pytest.mark.parametrize("level", WITH_SNAPSHOT, ids=str)
def test_consumer_with_a_fixed_snapshot_must_run_again(
    postgres_address: Address, level: psycopg.IsolationLevel
) -> None:
    def work(connection: psycopg.Connection) -> bool:
        with pytest.raises(psycopg.errors.SerializationFailure):
            handled(connection)
        connection.rollback()
        return handled(connection)

    with first_consumer(postgres_address) as first:
        future = in_background(postgres_address, at(level, work))
        first.commit()

        assert future.result(PATIENCE) is False
    assert effects(postgres_address) == 1


@pytest.mark.parametrize("level", WITH_SNAPSHOT, ids=str)
def test_savepoint_does_not_help_a_fixed_snapshot(postgres_address: Address, level: psycopg.IsolationLevel) -> None:
    def work(connection: psycopg.Connection) -> None:
        for _ in range(2):
            with pytest.raises(psycopg.errors.SerializationFailure), connection.transaction():
                handled(connection)
        connection.execute(EFFECT.format(99))

    with first_consumer(postgres_address) as first:
        future = in_background(postgres_address, at(level, work))
        first.commit()
        future.result(PATIENCE)

    assert effects(postgres_address) == 2


@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_message_handled_before_the_snapshot_is_known_without_an_error(
    postgres_address: Address, level: psycopg.IsolationLevel | None
) -> None:
    with first_consumer(postgres_address) as first:
        first.commit()

    with psycopg.connect(postgres_address.url) as connection:
        assert at(level)(connection) is False


def test_messages_one_by_one_in_opposite_order_are_a_deadlock(postgres_address: Address) -> None:
    def receive(connection: psycopg.Connection, message_id: str) -> str:
        try:
            with INBOX.once(connection, "mailer", message_id):
                return "received"
        except psycopg.errors.DeadlockDetected as error:
            connection.rollback()
            return str(error.sqlstate)

    def other(connection: psycopg.Connection) -> str:
        receive(connection, "b")
        return receive(connection, "a")

    with psycopg.connect(postgres_address.url) as one:
        receive(one, "a")
        future = in_background(postgres_address, other)
        mine = receive(one, "b")
        one.rollback()

        assert sorted([mine, future.result(PATIENCE)]) == ["40P01", "received"]


def test_batches_in_opposite_order_do_not_lock_each_other_out(address: Address) -> None:
    together = threading.Barrier(2)
    settings: dict[str, Any] = {"timeout": 60} if address.dialect == "sqlite" else {}

    def consume(step: int) -> int:
        first = 0
        with recording(address, **settings) as connection:
            for turn in range(5):
                ids = [f"{turn}/{n}" for n in range(200)][::step]
                together.wait(PATIENCE)
                with INBOX.once_many(connection, "mailer", ids) as found:
                    assert [each.message_id for each in found] == ids
                    first += sum(each.first for each in found)
                connection.commit()
        return first

    with ThreadPoolExecutor(2) as threads:
        firsts = list(threads.map(consume, (1, -1)))

    assert sum(firsts) == 1000
    assert address.count("sendonce_receipts") == 1000


def test_sqlite_transaction_that_has_read_is_told_at_once(sqlite_address: Address) -> None:
    with closing(sqlite_connection(sqlite_address, isolation_level=None)) as connection:
        connection.execute("begin")
        connection.execute("select count(*) from memos").fetchall()
        sqlite_address.change(EFFECT.format(99))

        with pytest.raises(sqlite3.OperationalError) as told:
            handled(connection)

        assert told.value.sqlite_errorcode == sqlite3.SQLITE_BUSY_SNAPSHOT
        connection.execute("rollback")
        connection.execute("begin immediate")
        connection.execute("select count(*) from memos").fetchall()
        assert handled(connection)
        connection.execute("commit")


def test_sqlite_consumer_waits_for_the_lock(sqlite_address: Address) -> None:
    begun = threading.Event()

    def second() -> bool:
        with closing(sqlite_connection(sqlite_address, timeout=PATIENCE)) as connection:
            begun.set()
            first = handled(connection)
            connection.commit()
            return first

    with closing(sqlite_connection(sqlite_address)) as connection, ThreadPoolExecutor(1) as thread:
        assert handled(connection)
        future = thread.submit(second)
        begun.wait(PATIENCE)
        connection.commit()

        assert future.result(PATIENCE) is False
    assert effects(sqlite_address) == 1
