"""A step of an operation that meets somebody else at the same delivery or operation waits, looks again, and goes on."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from sendonce.store.bulk import REQUEUE
from sendonce.store.ports import Store
from tests.processes import until_async
from tests.store.bulkwork import begun, given_many_dead_letters, step
from tests.store.databases import PostgresDatabase

WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest_asyncio.fixture
async def store(database: PostgresDatabase) -> AsyncIterator[Store]:
    yield await database.open()
    await database.close()


async def test_operation_leaves_out_what_another_person_opens_meanwhile(
    database: PostgresDatabase, store: Store
) -> None:
    given_many_dead_letters(database, 5)
    operation = await begun(store, REQUEUE)

    with database.connection() as other:
        other.execute("select id from sendonce_deliveries where id = 3 for update")
        other.execute(
            "insert into sendonce_deliveries (event_id, destination, destination_hash, generation)"
            " select event_id, destination, destination_hash, 1 from sendonce_deliveries where id = 3"
        )
        other.execute(
            "update sendonce_dead_letters set closed_at = now(), closed_as = 'requeued' where delivery_id = 3"
        )
        stepping = asyncio.create_task(step(store, operation))
        await until_async(lambda: database.one(WAITING), "the step to wait for the other")
        other.commit()

    done = await stepping
    assert (done.affected, done.looked, done.state) == (4, 5, "done")
    assert database.one("select count(*) from sendonce_deliveries where generation = 1") == 5


async def test_step_goes_on_where_the_one_before_has_come_to(database: PostgresDatabase, store: Store) -> None:
    given_many_dead_letters(database, 5)
    operation = await begun(store, REQUEUE)

    with database.connection() as other:
        other.execute("update sendonce_operations set last_id = 2 where id = %s", [operation.id])
        stepping = asyncio.create_task(step(store, operation))
        await until_async(lambda: database.one(WAITING), "the step to wait for the other")
        other.commit()

    assert ((await stepping).looked, (await stepping).affected) == (3, 3)
