"""What changes while a claim is being made, at the one moment that matters: after it has begun to look."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from sendonce.store.ports import Store
from tests.given import HOLD, WORKER, given_due_deliveries
from tests.processes import SECONDS
from tests.store.databases import PostgresDatabase

# Every claim looks at the stops first, by its own snapshot. This view keeps it waiting there while the lock is held.
GATE = """
alter table sendonce_stops rename to kept_stops;
create function pass_gate() returns boolean language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(7);
  return false;
end $$;
create view sendonce_stops as
  select scope, value from kept_stops union all select 'all', '' where pass_gate();
"""
WAITING = "select count(*) from pg_stat_activity where wait_event = 'advisory' and datname = current_database()"


@contextmanager
def closed_gate(database: PostgresDatabase) -> Iterator[None]:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(7)")
        yield


async def somebody_waits(database: PostgresDatabase) -> None:
    give_up_at = time.monotonic() + SECONDS
    while not await asyncio.to_thread(database.one, WAITING):
        assert time.monotonic() < give_up_at, "nobody came to the gate"


@pytest.mark.parametrize("changed", [(0,), (1,), (0, 1, 2)], ids=["the first", "another", "all"])
async def test_claim_leaves_what_was_changed_under_it_for_the_next(
    database: PostgresDatabase, store: Store, changed: tuple[int, ...]
) -> None:
    ids = given_due_deliveries(database, 3)
    touched = [ids[place] for place in changed]
    database.execute(GATE)
    with closed_gate(database):
        claiming = asyncio.create_task(store.start(WORKER, 10, HOLD))
        await somebody_waits(database)
        database.execute("update sendonce_deliveries set updated_at = now() where id = any(?)", touched)

    first, second = await claiming, await store.start(WORKER, 10, HOLD)

    taken = [claim.delivery_id for each in (first, second) if each.lease for claim in each.lease.claims]
    assert sorted(taken) == ids
    assert second.lease is not None
    assert sorted(claim.delivery_id for claim in second.lease.claims) == touched
    leased = database.execute("select unnest(deliveries) from sendonce_leases order by 1")
    assert [delivery_id for (delivery_id,) in leased] == ids


async def test_delivery_cancelled_under_a_claim_is_not_sent(database: PostgresDatabase, store: Store) -> None:
    cancelled, kept = given_due_deliveries(database, 2)
    database.execute(GATE)
    with closed_gate(database):
        claiming = asyncio.create_task(store.start(WORKER, 10, HOLD))
        await somebody_waits(database)
        await (await database.open()).cancel([cancelled], operator="ada", reason="not wanted")

    started = await claiming

    assert started.lease is not None
    assert [claim.delivery_id for claim in started.lease.claims] == [kept]
