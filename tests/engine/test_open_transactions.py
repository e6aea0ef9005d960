"""No transaction is open while something is being sent or asked about: the database itself is asked at that moment."""

import asyncio
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sendonce.domain.outcomes import Found, LookUp, Outcome, Unknown
from sendonce.engine import daemon
from sendonce.engine.daemon import Parts
from tests.engine.rig import QUICK, QUICK_CONFIG, Asked, given_many, serving
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase

# What had begun before and is about to end ends soon; what is open for the send does not end before the send.
SOON_SECONDS = 10.0
OLDER = (
    "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    " and backend_type = 'client backend' and xact_start < ?"
)


def held_since(database: Database, begun: Any) -> int:
    """How many transactions are open that had begun by then, or that keep others from the whole file."""
    if isinstance(database, PostgresDatabase):
        return int(database.one(OLDER, begun))
    assert isinstance(database, SqliteDatabase)
    with closing(sqlite3.connect(database.path, timeout=5, isolation_level=None)) as other:
        # Waits for whoever reads or writes; busy (1) when one of them does not end.
        [busy, *_] = other.execute("pragma wal_checkpoint(truncate)").fetchone()
    return int(busy)


def clock_of(database: Database) -> Any:
    return database.one("select clock_timestamp()") if isinstance(database, PostgresDatabase) else time.time()


@pytest.mark.slow
async def test_transaction_is_never_open_while_something_is_sent_or_asked_about(database: Database) -> None:
    given_many(database, 4)
    held: list[int] = []
    one_at_a_time = asyncio.Lock()

    async def look() -> None:
        async with one_at_a_time:
            begun, give_up_at = clock_of(database), time.monotonic() + SOON_SECONDS
            while open_still := await asyncio.to_thread(held_since, database, begun):
                if any(held) or time.monotonic() > give_up_at:
                    break
            held.append(open_still)

    async def send() -> Outcome:
        await look()
        return Unknown("dropped", "no answer")

    async def answer() -> LookUp:
        await look()
        return Found("n-1")

    channel = Asked(send, answers=[answer])
    parts = Parts(
        open_store=database._connect,
        channels=serving(channel),
        config=replace(QUICK_CONFIG, until_idle=True, lease=timedelta(minutes=2)),
        emit=lambda fact: None,
        version="1",
        policy=replace(QUICK, timeout=timedelta(seconds=60)),
    )

    finished = 0
    async with asyncio.timeout(500):
        while finished < 8:  # what is in doubt waits a moment, in which a worker may find nothing to do
            finished += (await daemon.run(parts)).finished

    assert finished == 8
    assert len(channel.sent) == len(channel.asked) == 4
    assert held == [0] * 8
    assert database.one("select count(*) from sendonce_deliveries where status = 'Completed'") == 4
