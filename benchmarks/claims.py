"""What a claim reads: with millions of finished rows behind it, under an old snapshot, and with many that wait."""

import asyncio
from datetime import datetime, timedelta

import psycopg

from benchmarks.measures import Figures, fresh, plan
from sendonce.domain.attempts import Report, Result
from sendonce.domain.decide import complete
from sendonce.domain.limits import NO_LIMITS, Limits
from sendonce.domain.outcomes import Delivered
from sendonce.store.postgres.claims import limit_values
from sendonce.store.postgres.connection import QUERIES
from sendonce.store.postgres.store import PostgresStore
from tests.servers.postgres import Server

LIMIT = 100
MOST_DRAINED = 50_000
PARKED = 100_000
# The rules forbid finished rows at birth: the triggers are off while the past is made up.
FINISHED = """
set session_replication_role = replica;
insert into sendonce_events (content_digest, type, key, payload)
select md5(n::text)::uuid, 'old', 'old' || n, '{}' from generate_series(1, %(count)s) n;
insert into sendonce_deliveries
  (event_id, destination_hash, destination, status, attempt_count, next_attempt_at, notified_at)
select id, content_digest, 'null:', 'Completed', 1, null, now() from sendonce_events where type = 'old';
insert into sendonce_attempts (delivery_id, attempt, lease_id, status, outcome, finished_at)
select id, 1, 0, 'Completed', 'Delivered', now() from sendonce_deliveries;
set session_replication_role = origin;
"""
DUE = """
with e as (
  insert into sendonce_events (content_digest, type, key, payload)
  select md5(n::text)::uuid, 'due', 'due' || n, '{}' from generate_series(1, %(count)s) n returning id)
insert into sendonce_deliveries (event_id, destination_hash, destination)
select id, left(encode(sha256('5:null:'), 'hex'), 32)::uuid, 'null:' from e;
"""


def claims(server: Server, rows: int) -> Figures:
    """Buffers read by one claim of 100: on an empty past, behind `rows` finished ones, and under an old snapshot."""
    drained = min(MOST_DRAINED, rows)
    empty = _buffers_after(fresh(server), 0, drained)
    behind = _buffers_after(fresh(server), rows, drained)
    parked = _buffers_with_parked(fresh(server), min(PARKED, rows), drained)
    return {
        "claim of 100: buffers, nothing behind": empty[0],
        f"claim of 100: buffers, {rows:,} finished behind": behind[0],
        "claim of 100: buffers, the same with an old snapshot": behind[1],
        f"claim of 100: buffers, {min(PARKED, rows):,} parked": parked,
        "claim of 100: ratio with parked / nothing": parked / empty[0],
        "claim of 100: ratio behind / nothing": behind[0] / empty[0],
        "claim of 100: ratio with an old snapshot / nothing": behind[1] / empty[0],
    }


def _buffers_after(dsn: str, rows: int, drained: int) -> tuple[float, float]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        if rows:
            connection.execute((FINISHED % {"count": rows}).encode())
        connection.execute((DUE % {"count": 2 * drained}).encode())
        connection.execute("vacuum analyze")
    with psycopg.connect(dsn) as old:
        fresh_claim = _claim_buffers(dsn, None)
        old.execute("set transaction isolation level repeatable read")
        old.execute("select count(*) from sendonce_meta")
        watermark = asyncio.run(_drain(dsn, drained))
        return fresh_claim, _claim_buffers(dsn, watermark)


def _buffers_with_parked(dsn: str, parked: int, due: int) -> float:
    """What waits behind a breaker was due before everything else, and was parked by claims."""
    limits = Limits(left={"http://dead.example/": 0})
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            (DUE.replace("due", "dead").replace("null:", "http://dead.example/") % {"count": parked}).encode()
        )
        connection.execute((DUE % {"count": due}).encode())
        asyncio.run(_park(dsn, limits))
        connection.execute("vacuum analyze")
    return _claim_buffers(dsn, None, limits)


async def _park(dsn: str, limits: Limits) -> None:
    store = await PostgresStore.connect(dsn)
    try:
        while (await store.start(1, 1, timedelta(seconds=60), limits)).parked:
            pass
    finally:
        await store.close()


async def _drain(dsn: str, count: int) -> tuple[datetime, int] | None:
    """Deliver `count` as a worker would; the mark from which it would look on."""
    store = await PostgresStore.connect(dsn)
    try:
        while count > 0:
            lease = (await store.start(1, 500, timedelta(seconds=60))).lease
            assert lease is not None
            await store.settle([Result(Report(each, lease.id, Delivered()), complete()) for each in lease.claims])
            count -= len(lease.claims)
        return store.watermark
    finally:
        await store.close()


def _claim_buffers(dsn: str, watermark: tuple[datetime, int] | None, limits: Limits = NO_LIMITS) -> float:
    since, since_id = watermark or (None, 0)
    values = {
        "worker_id": 1,
        "limit": LIMIT,
        "hold": 30.0,
        "since": since,
        "since_id": since_id,
        **limit_values(limits),
    }
    with psycopg.connect(dsn) as connection:
        plan(connection, QUERIES["start"], values)
        connection.rollback()
        top = plan(connection, QUERIES["start"], values)
        connection.rollback()
    return float(top["Shared Hit Blocks"] + top["Shared Read Blocks"])
