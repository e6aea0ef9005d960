"""Who is cancelled while a statement runs is so when it is over, and the transaction around it stays sound."""

import asyncio
import sqlite3
import threading
from datetime import UTC, datetime
from typing import ClassVar

import aiosqlite
import pytest

from sendonce import testing
from sendonce.sql.shielded import shielded
from sendonce.store.postgres.callers import CallersConnection, Rows, Values
from sendonce.store.sqlite.store import SqliteStore
from sendonce.testing.box import opened


async def test_work_that_is_shielded_ends_however_often_it_is_cancelled() -> None:
    begun, go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go.wait()
        ended.set()

    task = asyncio.create_task(shielded(work()))
    await begun.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    waited = not task.done()
    go.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert (waited, ended.is_set()) == (True, True)


async def test_error_of_the_work_is_its_answer() -> None:
    async def work() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await shielded(work())


class Slow:
    """A driver whose statement at this place waits until it may go on."""

    is_async: ClassVar[bool] = True
    is_closed = False
    commits_by_itself = False
    date_style = "ISO, MDY"

    def __init__(self, place: int) -> None:
        self.place = place
        self.ran: list[str] = []
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def run(self, script: str) -> None:
        self.ran.append(script)
        if len(self.ran) == self.place:
            self.begun.set()
            await self.go.wait()

    async def execute(self, query: str, values: Values = None) -> Rows:
        await self.run(query)
        return Rows([], [(datetime.now(UTC),)])


@pytest.mark.parametrize("place", [1, 2])
async def test_savepoint_is_undone_when_its_call_is_cancelled(place: int) -> None:
    driver = Slow(place)

    async def find() -> Slow:
        return driver

    lane = CallersConnection(find, lambda: datetime.now(UTC))

    task = asyncio.create_task(lane.server_time())
    await driver.begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    driver.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    ran = ["savepoint sendonce_engine", "select statement_timestamp()"][:place]
    assert driver.ran == [*ran, "rollback to savepoint sendonce_engine; release savepoint sendonce_engine"]


async def test_thread_of_aiosqlite_is_waited_for() -> None:
    go = threading.Event()

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("create table mine (id integer)")
        loop.call_soon_threadsafe(begun.set)
        assert go.wait(30)

    async with aiosqlite.connect(":memory:") as connection:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()
        async with opened(connection, testing.Clock()) as found:
            assert isinstance(found.store, SqliteStore)
            task = asyncio.create_task(found.store.transact(work))
            await begun.wait()
            task.cancel()
            resting = asyncio.create_task(found.lane.rest())
            await asyncio.sleep(0)
            waited = not task.done() and not resting.done()
            go.set()
            await resting
            with pytest.raises(asyncio.CancelledError):
                await task

        assert waited
