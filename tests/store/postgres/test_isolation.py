"""A database or role whose transactions see one moment only, unless told otherwise: ours are told otherwise."""

import asyncio
from datetime import timedelta

import psycopg
import pytest

from sendonce.domain.outcomes import Delivered
from sendonce.store.upkeep import Stage
from tests.given import HOLD, WORKER, given_event, given_lease, settle_with
from tests.processes import SECONDS, until_async
from tests.store.aging import backdate
from tests.store.databases import PostgresDatabase
from tests.store.postgres.test_operator_races import Halt

DAY = timedelta(days=1)
LEVELS = ("repeatable read", "serializable")
PARK = "select sendonce_park(array(select id from sendonce_deliveries), '{}', '{}', null)"
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


def strict(database: PostgresDatabase, level: str) -> None:
    """What new connections begin their transactions with."""
    name = psycopg.conninfo.conninfo_to_dict(database.url)["dbname"]
    database.execute(f"alter database \"{name}\" set default_transaction_isolation = '{level}'")


@pytest.mark.parametrize("level", LEVELS)
async def test_delivery_parked_while_its_stop_is_lifted_is_not_forgotten(
    database: PostgresDatabase, level: str
) -> None:
    strict(database, level)
    store = await database.open()
    given_event(database, to="null:a")
    await store.stop("channel", "null", operator="ada", reason=None)
    with psycopg.connect(database.url) as parker:
        parker.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        parker.execute(PARK)
        lifting = asyncio.ensure_future(store.resume("channel", "null", operator="ada"))
        await until_async(lambda: database.one(WAITING), "the person to wait for who parks")
        parker.commit()
        await lifting

    assert (await store.start(WORKER, 10, HOLD)).lease is not None
    await database.close()


@pytest.mark.parametrize("level", LEVELS)
async def test_retention_sees_what_was_opened_since_it_began(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    strict(database, level)
    store, other = await database.open(), await database.open()
    event_id = given_event(database, to="null:a")
    await settle_with(store, await given_lease(store), Delivered("n-1"))
    backdate(database, 40 * DAY)
    halt = Halt(monkeypatch, "lock_events")

    retaining_it = asyncio.ensure_future(other.retain(Stage.PAYLOADS, 0, limit=10, age=30 * DAY))
    await asyncio.wait_for(halt.reached.wait(), SECONDS)
    await store.open_generations([1], kind="replay", operator="ada", reason="again")
    halt.go.set()
    await retaining_it

    [claim] = (await given_lease(store)).claims
    assert (claim.event_id, claim.payload) == (event_id, '{"memo":1}')
    await database.close()
