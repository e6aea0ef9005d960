"""Parking, between two of its own statements: whoever holds something then, and lets it go, loses nothing."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from sendonce.store.ports import Store
from tests.given import HOLD, WORKER, given_event
from tests.processes import SECONDS, until_async
from tests.store.databases import PostgresDatabase

PARK = "select sendonce_park(array(select id from sendonce_deliveries), '{}', '{}', null)"
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"

Act = Callable[[Store, int], Awaitable[object]]


async def pause(store: Store, subscription_id: int) -> object:
    return await store.set_subscription_state(subscription_id, "paused", operator="ada", reason=None)


async def unpause(store: Store, subscription_id: int) -> object:
    return await store.set_subscription_state(subscription_id, "active", operator="ada", reason=None)


async def stop(store: Store, _: int) -> object:
    return await store.stop("channel", "https", operator="ada", reason=None)


async def resume(store: Store, _: int) -> object:
    return await store.resume("channel", "https", operator="ada")


@pytest.mark.parametrize(("hold", "let_go"), [(pause, unpause), (stop, resume)])
async def test_delivery_held_and_let_go_while_being_parked_is_not_forgotten(
    database: PostgresDatabase, store: Store, hold: Act, let_go: Act
) -> None:
    subscription_id = await store.add_subscription(
        tenant="", types=["*"], destination="https://hook.example/", policy=None, description=None, operator="ada"
    )
    given_event(database)
    with psycopg.connect(database.url) as parker, psycopg.connect(database.url) as halt:
        halt.execute("lock table sendonce_breakers in access exclusive mode")
        parking = threading.Thread(target=parker.execute, args=(PARK,))
        parking.start()
        await until_async(lambda: database.one(WAITING) == 1, "the parker to be halted after it looked at what holds")
        await hold(store, subscription_id)
        halt.commit()
        await asyncio.to_thread(parking.join)
        letting_go = asyncio.ensure_future(let_go(store, subscription_id))
        await asyncio.wait([letting_go], timeout=0.3)
        parker.commit()
        await letting_go

    assert (await store.start(WORKER, 10, HOLD)).lease is not None, "nothing holds it any more"


@pytest.mark.parametrize(
    ("hold", "change"),
    [
        (pause, "update sendonce_subscriptions set state = 'active'"),
        (pause, "update sendonce_subscriptions set state = 'disabled'"),
        (stop, "delete from sendonce_stops"),
    ],
)
async def test_park_never_waits_for_a_person_who_resumes(
    database: PostgresDatabase, store: Store, hold: Act, change: str
) -> None:
    subscription_id = await store.add_subscription(
        tenant="", types=["*"], destination="https://hook.example/", policy=None, description=None, operator="ada"
    )
    given_event(database)
    await hold(store, subscription_id)
    with psycopg.connect(database.url) as person:
        person.execute(change)

        started = await asyncio.wait_for(store.start(WORKER, 10, HOLD), timeout=SECONDS)

        assert (started.lease, started.parked) == (None, 0), "it is left as it is until the person is done"
