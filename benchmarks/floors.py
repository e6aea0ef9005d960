"""What hand-written SQL reaches on the same machine: the floors that ours is divided by.

Floor 1 is one table with one partial index. Floor 2 is two tables that make the moves of our saga: a claim updates
the delivery and inserts an attempt, a finish updates both; batches of 500, fillfactor and indexes as good as we know.
"""

import asyncio
import json
from collections.abc import Callable, Sequence

import asyncpg

BATCH = 500
FLOOR_1 = """
create table job (
  id bigint generated always as identity primary key, status smallint not null default 0,
  run_at timestamptz not null default now(), claimed_at timestamptz, done_at timestamptz,
  attempts int not null default 0, payload jsonb not null) with (fillfactor = 50);
create index on job (id) where claimed_at is null;
"""
FLOOR_2 = """
create table deliveries (
  id bigint generated always as identity primary key, status smallint not null default 0,
  claimable boolean not null default true, next_attempt_at timestamptz not null default now(),
  attempt_count int not null default 0, notified_at timestamptz, notification_id uuid, completed_at timestamptz,
  last_error text, payload jsonb not null) with (fillfactor = 50);
create table jobs (
  id bigint generated always as identity primary key, delivery_id bigint not null, attempt int not null,
  status smallint not null, worker_id int not null, lease_until timestamptz not null,
  started_at timestamptz not null default now(), finished_at timestamptz, result jsonb) with (fillfactor = 70);
create index on deliveries (next_attempt_at, id) where claimable;
"""
CLAIM = """
with c as (
  select id from deliveries where claimable and next_attempt_at <= now()
   order by next_attempt_at, id limit $1 for update skip locked),
u as (
  update deliveries d set status = 1, claimable = false, attempt_count = d.attempt_count + 1
    from c where d.id = c.id returning d.id, d.attempt_count, d.payload),
j as (
  insert into jobs (delivery_id, attempt, status, worker_id, lease_until)
  select id, attempt_count, 1, $2, now() + interval '30 s' from u returning id, delivery_id)
select j.id, u.payload from j join u on u.id = j.delivery_id
"""
FINISH = """
with f as (
  update jobs j set status = 2, finished_at = now(), result = x.result
    from unnest($1::bigint[], $2::jsonb[]) as x(id, result) where j.id = x.id and j.status = 1 returning j.delivery_id)
update deliveries d set status = 2, completed_at = now() from f where d.id = f.delivery_id and d.status = 1
"""
RESULT = '{"http_status": 200, "ms": 12}'


def payload_of(number: int) -> dict[str, object]:
    """About 200 bytes of JSON."""
    return {"seq": number, "kind": "noop", "note": "x" * 150}


def texts(numbers: Sequence[int]) -> list[tuple[str]]:
    return [(json.dumps(payload_of(number)),) for number in numbers]


async def fill_2(dsn: str, count: int) -> None:
    connection = await asyncpg.connect(dsn)
    for first in range(0, count, 1000):
        records = texts(range(first, min(first + 1000, count)))
        await connection.copy_records_to_table("deliveries", columns=["payload"], records=records)
    await connection.execute("analyze")
    await connection.close()


async def drain_2(dsn: str, go: Callable[[], None]) -> None:
    """Claim, count, finish, until nothing is left; the clock starts when the first claim has come in."""
    connection = await asyncpg.connect(dsn)
    claim, finish = await connection.prepare(CLAIM), await connection.prepare(FINISH)
    while rows := await claim.fetch(BATCH, 1):
        go()
        for row in rows:
            json.loads(row[1])
        await finish.fetch([row[0] for row in rows], [RESULT] * len(rows))
    await connection.close()


async def listen_2(dsn: str, seen: Callable[[int], None], go: Callable[[], None], stop: asyncio.Event) -> None:
    """Wait for announcements and handle what they bring, one batch at a time."""
    connection, listener = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    wake = asyncio.Event()
    await listener.add_listener("job", lambda *_: wake.set())
    claim, finish = await connection.prepare(CLAIM), await connection.prepare(FINISH)
    go()
    while not stop.is_set():
        wake.clear()
        rows = await claim.fetch(BATCH, 1)
        for row in rows:
            seen(json.loads(row[1])["seq"])
        if rows:
            await finish.fetch([row[0] for row in rows], [RESULT] * len(rows))
            continue
        try:
            async with asyncio.timeout(1):
                await wake.wait()
        except TimeoutError:
            continue
    await connection.close()
    await listener.close()
