"""What the box stands on: a lane that can be cut, the later of two clocks, an event loop that is nobody else's."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sendonce import NotAllowed, StoreError, testing
from sendonce.store.sqlite.store import SqliteStore
from sendonce.testing.box import opened
from tests.outbox.callers import SQLITE, Caller
from tests.outbox.databases import Address
from tests.testing.conftest import OPENERS, without_tables_in
from tests.testing.recording import publish


async def test_connection_that_was_cut_passes_nothing_and_has_nobody_at_work(caller: Caller) -> None:
    async with opened(caller.connection, testing.Clock()) as found:
        working = [asyncio.create_task(found.store.register(f"worker {n}", "1", 1)) for n in range(3)]
        await asyncio.sleep(0)
        found.lane.cut()

        await found.lane.rest()

        await asyncio.sleep(0)
        assert all(each.done() for each in working)
        with pytest.raises(StoreError, match="this store is closed"):
            await found.store.status()
    written = [each for each in working if each.exception() is None]
    async with opened(caller.connection, testing.Clock()) as found:
        assert len((await found.store.status()).workers) == len(written)


async def test_statement_that_the_rules_forbid_is_undone_alone(caller: Caller) -> None:
    box = await testing.aoutbox(caller.connection)
    await caller.do("insert into memos (id, body) values (1, 'mine')")
    await caller.publish("memo.created", {}, key="1", to="https://a.example/")

    with pytest.raises(NotAllowed):
        await box.aadmin(lambda admin: admin.areplay([1], reason="it is still open"))
    sent = await box.adrain()

    assert len(sent) == 1
    await caller.do("update memos set body = 'still mine' where id = 1")


async def test_call_that_fails_takes_back_what_it_has_written_and_no_more() -> None:
    def spoil(connection: sqlite3.Connection) -> None:
        connection.execute("insert into memos values (2)")
        raise KeyError

    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table memos (id integer)")
        connection.execute("insert into memos values (1)")
        async with opened(connection, testing.Clock()) as found:
            assert isinstance(found.store, SqliteStore)

            with pytest.raises(KeyError):
                await found.store.transact(spoil)

        assert connection.execute("select id from memos").fetchall() == [(1,)]


@pytest.mark.parametrize("driver", ["pysqlite", "aiosqlite", "psycopg", "psycopg-async", "psycopg2", "asyncpg"])
async def test_sqlalchemy_knows_of_the_transaction_that_the_box_is_in(
    request: pytest.FixtureRequest, tmp_path: Path, driver: str
) -> None:
    kind = f"sqlalchemy-connection-{driver}"
    address = (
        without_tables_in(tmp_path) if kind in SQLITE else Address(request.getfixturevalue("pg_dsn"), "postgresql")
    )
    async with OPENERS[kind](address) as caller:
        await testing.aoutbox(caller.connection)

        await caller.end("commit")

        assert address.count("sendonce_events") == 0


@pytest.mark.parametrize("point", ["after_claim", "before_send", "after_send", "before_settle", "after_settle"])
async def test_crash_leaves_no_task_behind(connection: Any, point: str) -> None:
    box = await testing.aoutbox(connection)
    publish(connection)

    with box.crash(point):
        await box.adrain()

    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_clock_that_is_later_counts() -> None:
    clock, ahead = testing.Clock(), datetime.now(UTC) + timedelta(hours=1)
    clock.advance(hours=2)

    assert clock.now(at_least=ahead) == ahead + timedelta(hours=2)
    assert clock.now(at_least=ahead - timedelta(hours=2)) < ahead + timedelta(hours=2)


def test_event_loop_of_the_callers_thread_stays_as_it_was() -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    with closing(loop), closing(sqlite3.connect(":memory:")) as connection:
        box = testing.outbox(connection)
        publish(connection)
        box.drain()

        assert asyncio.get_event_loop() is loop
        asyncio.set_event_loop(None)
