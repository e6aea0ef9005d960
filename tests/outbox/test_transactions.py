"""Recording belongs to the caller's transaction, on every kind of connection."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from sendonce import Draft, Email, KeyReused, NotInTransaction, Outbox
from tests.outbox.callers import Caller
from tests.outbox.conftest import POSTGRES_KINDS, Kind
from tests.outbox.databases import NOTHING, Address, sqlite_connection

TO: list[str | Email] = [
    Email("ada@example.com", subject="Saved", text="Your memo is saved."),
    "https://runner.example/hook",
]
ONE = {"events": 1, "deliveries": 2, "contents": 1}
OWN_ROW = "insert into memos (id, body) values (7, 'own')"
LEVELS = ["read committed", "repeatable read", "serializable"]


async def test_event_that_is_committed_stays(kind: Kind, caller: Caller) -> None:
    await caller.do(OWN_ROW)
    published = await caller.publish("memo.created", {"id": 7}, key=("memo", 7), to=TO)
    await caller.end("commit")

    assert published.duplicate is False
    assert published.deliveries == 2
    assert kind.address.look("select id from sendonce_events") == [(published.event_id,)]
    assert kind.address.counts() == ONE
    assert kind.address.count("memos") == 1


async def test_transaction_that_is_rolled_back_leaves_nothing(kind: Kind, caller: Caller) -> None:
    await caller.do(OWN_ROW)
    await caller.publish("memo.created", {"id": 7}, key=("memo", 7), to=TO)
    await caller.publish_many([Draft("memo.created", {}, key=key, to=TO) for key in ("a", "b")])
    await caller.end("rollback")

    assert kind.address.counts() == NOTHING
    assert kind.address.count("memos") == 0


async def test_outbox_commits_nothing_before_the_caller_does(kind: Kind, caller: Caller) -> None:
    await caller.publish("memo.created", {"id": 7}, key=("memo", 7), to=TO)
    await caller.publish_many([Draft("memo.created", {}, key=key, to=TO) for key in ("a", "b")])

    assert kind.address.counts() == NOTHING
    await caller.end("commit")
    assert kind.address.counts() == {"events": 3, "deliveries": 6, "contents": 3}


async def test_publish_that_comes_first_can_be_rolled_back(kind: Kind, caller: Caller) -> None:
    await caller.publish("memo.created", {"id": 7}, key=("memo", 7), to=TO)
    await caller.do(OWN_ROW)
    await caller.end("rollback")

    assert kind.address.counts() == NOTHING
    assert kind.address.count("memos") == 0


async def test_savepoint_rolled_back_takes_it_along_and_the_rest_lives(kind: Kind, caller: Caller) -> None:
    await caller.do(OWN_ROW, "savepoint caller")
    await caller.publish("memo.created", {"id": 7}, key=("memo", 7), to=TO)
    await caller.publish_many([Draft("memo.created", {}, key=key, to=TO) for key in ("a", "b")])
    await caller.do("rollback to savepoint caller")
    await caller.publish("memo.created", {"id": 8}, key=("memo", 8), to=TO)
    await caller.end("commit")

    assert kind.address.look("select key from sendonce_events") == [("memo/8",)]
    assert kind.address.counts() == ONE
    assert kind.address.count("memos") == 1


async def test_refused_key_leaves_the_transaction_usable(kind: Kind, caller: Caller) -> None:
    await caller.publish("memo.created", {"id": 7}, key="first", to=TO)
    with pytest.raises(KeyReused):
        await caller.publish("memo.created", {"id": 8}, key="first", to=TO)
    with pytest.raises(KeyReused):
        await caller.publish_many([Draft("memo.created", {}, key=key, to=TO) for key in ("a", "first")])
    await caller.do(OWN_ROW)
    await caller.end("commit")

    assert kind.address.counts() == ONE
    assert kind.address.count("memos") == 1


async def test_connection_that_commits_by_itself_is_refused(kind: Kind) -> None:
    async with kind.open(kind.address, autocommit=True) as caller:
        with pytest.raises(NotInTransaction):
            await caller.publish("memo.created", {}, key="a", to=TO)
        with pytest.raises(NotInTransaction):
            await caller.publish_many([Draft("memo.created", {}, key=key, to=None) for key in ("a", "b")])

    assert kind.address.counts() == NOTHING


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", POSTGRES_KINDS, indirect=True)
async def test_isolation_level_will_do(kind: Kind, caller: Caller, level: str) -> None:
    await caller.do(f"set transaction isolation level {level}")
    await caller.publish("memo.created", {"id": 7}, key=("memo", 7), to=TO)
    again = await caller.publish("memo.created", {"id": 7}, key=("memo", 7), to=TO)
    await caller.end("commit")

    assert again.duplicate is True
    assert kind.address.counts() == ONE


def test_psycopg_in_autocommit_mode_may_publish_within_a_transaction(postgres_address: Address) -> None:
    with psycopg.connect(postgres_address.url, autocommit=True) as connection:
        with connection.transaction():
            Outbox().publish(connection, "memo.created", {}, key="a", to=TO)
            assert postgres_address.counts() == NOTHING

        assert postgres_address.counts() == ONE


def test_sqlite_in_autocommit_mode_may_publish_within_a_transaction(sqlite_address: Address) -> None:
    with closing(sqlite_connection(sqlite_address, isolation_level=None)) as connection:
        connection.execute("begin immediate")
        Outbox().publish(connection, "memo.created", {}, key="a", to=TO)
        assert sqlite_address.counts() == NOTHING
        connection.execute("commit")

    assert sqlite_address.counts() == ONE


@pytest.mark.parametrize("level", ["IMMEDIATE", "EXCLUSIVE", "DEFERRED", ""])
def test_sqlite_begins_the_way_the_connection_says(sqlite_address: Address, level: str) -> None:
    with closing(sqlite_connection(sqlite_address, isolation_level=level)) as connection:
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        Outbox().publish(connection, "memo.created", {}, key="a", to=TO)
        connection.commit()

    assert statements[0].split() == ["begin", *([level] if level else [])]
    assert sqlite_address.counts() == ONE


def test_error_in_the_middle_leaves_nothing_half_written(sqlite_address: Address) -> None:
    sqlite_address.change(
        "create trigger full before insert on sendonce_deliveries begin select raise(abort, 'disk full'); end"
    )
    with closing(sqlite_connection(sqlite_address)) as connection:
        connection.execute(OWN_ROW)
        with pytest.raises(sqlite3.IntegrityError, match="disk full"):
            Outbox().publish(connection, "memo.created", {}, key="a", to=TO)
        connection.commit()

    assert sqlite_address.counts() == NOTHING
    assert sqlite_address.count("memos") == 1


def test_error_that_ends_the_transaction_is_the_one_that_is_raised(sqlite_address: Address) -> None:
    sqlite_address.change(
        "create trigger full before insert on sendonce_deliveries begin select raise(rollback, 'disk full'); end"
    )
    with closing(sqlite_connection(sqlite_address)) as connection:
        connection.execute(OWN_ROW)
        with pytest.raises(sqlite3.IntegrityError, match="disk full"):
            Outbox().publish(connection, "memo.created", {}, key="a", to=TO)
        assert not connection.in_transaction

    assert sqlite_address.counts() == NOTHING


def test_aborted_transaction_is_told_in_the_drivers_own_words(postgres_address: Address) -> None:
    with psycopg.connect(postgres_address.url) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1 / 0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            Outbox().publish(connection, "memo.created", {}, key="a", to=TO)
