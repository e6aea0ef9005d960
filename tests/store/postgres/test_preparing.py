"""Claims and results are prepared on a direct connection, never through a pooler, and a lost plan is no failure."""

import pytest

from sendonce.domain.outcomes import Delivered
from sendonce.errors import StoreBusy
from sendonce.store.postgres.connection import opened
from sendonce.store.postgres.store import PostgresStore
from tests.given import HOLD, WORKER, given_due_delivery, given_lease, settle_with
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase
from tests.store.postgres.pooler import Pooler

PREPARED = "select count(*) from pg_prepared_statements"


async def work(database: PostgresDatabase, store: PostgresStore) -> None:
    given_due_delivery(database)
    lease = await given_lease(store)
    await settle_with(store, lease, Delivered())


async def prepared(store: PostgresStore) -> int:
    async with store.claims.connection() as connection:
        cursor = await connection.execute(PREPARED, prepare=False)
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])


async def test_direct_connection_keeps_the_plan_of_a_claim(database: PostgresDatabase) -> None:
    store = await PostgresStore.connect(database.url)
    for _ in range(4):
        await work(database, store)

    assert await prepared(store) >= 1
    await store.close()


async def test_statements_are_not_prepared_through_a_pooler(
    database: PostgresDatabase, postgres_server: Server
) -> None:
    if not postgres_server.folder:
        pytest.skip("the pooler of the tests cannot log in where a password may be wanted")
    async with Pooler(database.url).run(size=2) as pooler:
        store = await PostgresStore.connect(pooler.url)
        for _ in range(6):
            await work(database, store)
        connection, session = await opened(pooler.url)
        await connection.close()
        assert not session.is_direct
        assert await prepared(store) == 0
        await store.close()


async def test_plan_that_is_gone_is_met_once_and_work_goes_on(database: PostgresDatabase) -> None:
    store = await PostgresStore.connect(database.url)
    for _ in range(4):
        await work(database, store)
    async with store.claims.connection() as connection:
        await connection.execute("do $$ begin execute 'deallocate all'; end $$", prepare=False)  # behind its back
    given_due_delivery(database)

    with pytest.raises(StoreBusy):
        await store.start(WORKER, 10, HOLD)
    assert len((await given_lease(store)).claims) == 1
    for _ in range(4):
        await work(database, store)
    assert await prepared(store) == 0, "once is enough to stop preparing"
    await store.close()


async def test_direct_connection_is_known_as_one(database: PostgresDatabase) -> None:
    connection, session = await opened(database.url)
    await connection.close()

    assert session.is_direct
