"""A worker frozen past its lease: another one takes over, and what the first says afterwards comes late."""

import signal
import sqlite3

import pytest

from tests.crash.accounts import EXPIRED, all_completed, end_leases, in_flight, publish, worker
from tests.processes import Process, until
from tests.receiver import Receiver
from tests.store.databases import Database, SqliteDatabase

AMOUNT = 30
SLOTS = 8


def freeze(process: Process, database: Database) -> None:
    """Stop it, but not while it holds the file's only lock: then nobody could go on, and rightly so."""
    process.send(signal.SIGSTOP)
    while isinstance(database, SqliteDatabase) and is_locked(database):
        process.send(signal.SIGCONT)
        process.send(signal.SIGSTOP)


def is_locked(database: SqliteDatabase) -> bool:
    connection = sqlite3.connect(database.path, timeout=0.5, isolation_level=None)
    try:
        connection.execute("begin immediate")
        connection.execute("rollback")
    except sqlite3.OperationalError:
        return True
    finally:
        connection.close()
    return False


@pytest.mark.sqlite_later
@pytest.mark.slow
def test_results_of_a_frozen_worker_are_kept_and_nothing_is_completed_twice(
    database: Database, receiver: Receiver
) -> None:
    publish(database, receiver, AMOUNT)
    receiver.is_held = True

    with worker(database, "--concurrency", str(SLOTS)) as frozen:
        until(lambda: len(receiver.arrivals) >= SLOTS and len(in_flight(database)) >= SLOTS, "full slots")
        freeze(frozen, database)
        held = in_flight(database)
        end_leases(database)
        receiver.is_held = False
        with worker(database, "--concurrency", "20") as heir:
            all_completed(database, AMOUNT)
            frozen.send(signal.SIGCONT)
            until(lambda: len(database.rows("findings")) >= len(held), "the late results")
            for process in (frozen, heir):
                process.send(signal.SIGTERM)
                assert process.ended() == 0

    outcomes: dict[int, list[tuple[str, str | None]]] = {}
    for row in database.rows("attempts"):
        outcomes.setdefault(row["delivery_id"], []).append((row["outcome"], row["error_code"]))
    assert {id for id, ended in outcomes.items() if EXPIRED in ended} == held
    assert all(ended.count(("Delivered", None)) == 1 for ended in outcomes.values())
    late = database.rows("findings")
    assert {row["delivery_id"] for row in late} == held
    assert {row["kind"] for row in late} == {"late_result"}
    assert frozen.count("late=") >= 1
    assert frozen.count("lost .* leases") <= 1, "once, unless its results came before it asked"
    assert frozen.count("Traceback") + heir.count("Traceback") == 0
