"""What goes wrong with a file passes by itself: the next call works, and nothing half-done is left behind."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sendonce.domain.attempts import Result, Verdict
from sendonce.domain.outcomes import Delivered
from sendonce.errors import NotAllowed, SchemaMismatch, StoreBusy
from sendonce.store.sqlite import connection as sqlite_connection
from sendonce.store.sqlite.connection import Transaction
from sendonce.store.sqlite.store import SqliteStore
from tests.given import HOLD, WORKER, expire, given_due_deliveries, given_due_delivery, given_lease, settle_with
from tests.processes import SECONDS
from tests.store.databases import SqliteDatabase

# Takes the write lock, says so, and holds it until it is told to go.
HOLD_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin immediate")
print("locked", flush=True)
sys.stdin.readline()
"""


@contextmanager
def locked_by_another_process(database: SqliteDatabase) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(database.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    try:
        yield
    finally:
        process.communicate(b"go\n", timeout=SECONDS)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_connection, "BUSY_SECONDS", 0.05)


@pytest.mark.usefixtures("impatient")
async def test_lock_of_another_process_passes(database: SqliteDatabase, store: SqliteStore) -> None:
    given_due_delivery(database)

    with locked_by_another_process(database):
        with pytest.raises(StoreBusy) as busy:
            await store.start(WORKER, 10, HOLD)
        assert (await store.status()).due == 1
    started = await store.start(WORKER, 10, HOLD)

    assert str(busy.value) == "SQLite cannot answer now: another process is writing"
    assert started.lease is not None


async def test_writer_waits_for_another_one(database: SqliteDatabase, store: SqliteStore) -> None:
    given_due_delivery(database)
    with locked_by_another_process(database):
        waiting = asyncio.ensure_future(store.start(WORKER, 10, HOLD))
        await store.status()
        assert not waiting.done()

    assert (await waiting).lease is not None


async def test_reads_do_not_wait_for_the_stores_own_writer(database: SqliteDatabase, store: SqliteStore) -> None:
    loop = asyncio.get_running_loop()
    begun, go = asyncio.Event(), asyncio.Event()

    def hold(_: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(timeout=SECONDS)

    given_due_delivery(database)
    writing = asyncio.ensure_future(store.transact(hold))
    await begun.wait()

    assert (await store.status()).due == 1
    assert len(await store.attempts_of(1)) == 0
    go.set()
    await writing


async def test_full_database_passes_and_a_settle_is_all_or_nothing(
    database: SqliteDatabase, store: SqliteStore
) -> None:
    given_due_deliveries(database, 200)
    lease = await given_lease(store, limit=200)
    pages = await store.transact(lambda connection: connection.execute("pragma page_count").fetchone()[0])
    await store.transact(lambda connection: connection.execute(f"pragma max_page_count = {pages}").fetchone())

    with pytest.raises(StoreBusy, match="full"):
        await settle_with(store, lease, Delivered("x" * 500))
    states = database.execute("select distinct status from sendonce_deliveries")
    await store.transact(lambda connection: connection.execute("pragma max_page_count = 100000").fetchone())
    verdicts = await settle_with(store, lease, Delivered("x" * 500))

    assert states == [("InProgress",)]
    assert verdicts == [Verdict.APPLIED] * 200


async def test_refused_change_is_undone_and_named_without_values(database: SqliteDatabase, store: SqliteStore) -> None:
    def break_the_rules(connection: sqlite3.Connection) -> None:
        connection.execute("delete from sendonce_counters")
        connection.execute("update sendonce_deliveries set status = 'Completed', next_attempt_at = null")

    given_due_delivery(database)
    database.execute("insert into sendonce_counters (created_at, amount, name) values (1, 1, 'completed')")

    with pytest.raises(NotAllowed, match="deliveries_move_as_drawn"):
        await store.transact(break_the_rules)

    assert (await store.status()).completed == 1
    assert (await store.status()).due == 1


async def test_decision_that_fails_leaves_the_lease(database: SqliteDatabase, store: SqliteStore) -> None:
    def fail(_: object) -> list[Result]:
        raise ZeroDivisionError

    given_due_delivery(database)
    await given_lease(store)
    database.advance(2 * HOLD)

    with pytest.raises(ZeroDivisionError):
        await store.expire(10, fail)

    assert len(await expire(store)) == 1


async def test_tables_that_are_missing_are_named_as_that(database: SqliteDatabase, store: SqliteStore) -> None:
    database.execute("drop table sendonce_stops")

    with pytest.raises(SchemaMismatch, match="sendonce migrate"):
        await store.start(WORKER, 10, HOLD)


async def test_connection_that_cannot_roll_back_is_replaced(database: SqliteDatabase, store: SqliteStore) -> None:
    class Stuck:
        """A connection whose transaction cannot be ended."""

        in_transaction = True

        def __init__(self, connection: sqlite3.Connection) -> None:
            self.connection = connection

        def execute(self, sql: str) -> None:
            if sql == "commit":
                raise sqlite3.OperationalError("disk I/O error")

        def rollback(self) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        def close(self) -> None:
            self.connection.close()

    given_due_delivery(database)
    await store.transact(lambda _: None)
    lane = store._writer
    assert lane._connection is not None
    lane._connection = Stuck(lane._connection)  # type: ignore[assignment]

    with pytest.raises(Exception, match="SQLite"):
        await lane.run(lambda _: None)

    assert await lane.run(lambda transaction: isinstance(transaction, Transaction))
    assert (await store.start(WORKER, 10, HOLD)).lease is not None
