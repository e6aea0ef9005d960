"""SQLite: the engine against a bare sqlite3 script that makes the same writes in the same batches."""

import asyncio
import json
import sqlite3
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from benchmarks.floors import payload_of
from benchmarks.measures import Figures
from sendonce import Draft, Outbox
from sendonce.compose import migrate, open_store
from sendonce.domain.attempts import Report, Result
from sendonce.domain.decide import complete
from sendonce.domain.outcomes import Delivered

BATCH = 500


def embedded(count: int) -> Figures:
    """Deliveries per second claimed and finished in batches of 500, each hop committed with FULL."""
    with tempfile.TemporaryDirectory() as folder:
        bare = _bare(_filled(Path(folder) / "bare.db", count))
        ours = asyncio.run(_ours(_filled(Path(folder) / "ours.db", count)))
    return {
        "SQLite: bare script per second": count / bare,
        "SQLite: ours per second": count / ours,
        "SQLite: ours / bare script": bare / ours,
    }


def _filled(path: Path, count: int) -> Path:
    migrate(f"sqlite:///{path}")
    connection = sqlite3.connect(path)
    outbox = Outbox()
    for first in range(0, count, 1000):
        numbers = range(first, min(first + 1000, count))
        outbox.publish_many(
            connection, [Draft("noop", payload_of(each), key=str(each), to="null:") for each in numbers]
        )
        connection.commit()
    connection.close()
    return path


def _bare(path: Path) -> float:
    """The same rows changed the same way by the shortest script that does it, rules and indexes in place."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    begun = time.monotonic()
    lease = 0
    while True:
        now = time.time_ns() // 1000
        lease += 1
        connection.execute("begin immediate")
        rows = connection.execute(
            "select d.id, e.payload from sendonce_deliveries d join sendonce_events e on e.id = d.event_id"
            " where d.next_attempt_at <= ? order by d.next_attempt_at, d.id limit ?",
            (now, BATCH),
        ).fetchall()
        if not rows:
            connection.execute("rollback")
            break
        connection.executemany(
            "insert into sendonce_attempts (delivery_id, attempt, lease_id, status, created_at)"
            " values (?, 1, ?, 'Leased', ?)",
            [(row[0], lease, now) for row in rows],
        )
        connection.executemany(
            "update sendonce_deliveries set status = 'InProgress', next_attempt_at = null, updated_at = ? where id = ?",
            [(now, row[0]) for row in rows],
        )
        connection.execute(
            "insert into sendonce_leases (id, worker_id, created_at, expires_at, deliveries) values (?, 1, ?, ?, ?)",
            (lease, now, now + 30_000_000, json.dumps([row[0] for row in rows])),
        )
        connection.execute("commit")
        for row in rows:
            json.loads(row[1])
        connection.execute("begin immediate")
        connection.executemany(
            "update sendonce_attempts set status = 'Completed', outcome = 'Delivered', finished_at = ?"
            " where delivery_id = ? and attempt = 1 and lease_id = ?",
            [(now, row[0], lease) for row in rows],
        )
        connection.executemany(
            "update sendonce_deliveries set status = 'Completed', attempt_count = 1, notified_at = ?, updated_at = ?"
            " where id = ?",
            [(now, now, row[0]) for row in rows],
        )
        connection.execute("delete from sendonce_leases where id = ?", (lease,))
        connection.execute("commit")
    connection.close()
    return time.monotonic() - begun


async def _ours(path: Path) -> float:
    store = await open_store(f"sqlite:///{path}")
    begun = time.monotonic()
    while lease := (await store.start(1, BATCH, timedelta(seconds=30))).lease:
        for claim in lease.claims:
            json.loads(claim.payload or "null")
        await store.settle([Result(Report(each, lease.id, Delivered()), complete()) for each in lease.claims])
        await store.release([lease.id])
    seconds = time.monotonic() - begun
    await store.close()
    return seconds
