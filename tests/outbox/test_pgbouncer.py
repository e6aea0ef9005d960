"""Publishing through the real PgBouncer in transaction mode, by every driver, set up as each driver's manual says."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
import sqlalchemy.ext.asyncio
from sqlalchemy.pool import NullPool

from sendonce import Draft, Outbox
from sendonce.contrib.sqlalchemy import async_engine
from tests.outbox.databases import Address
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Server

TRANSACTIONS = 12  # more than it takes until a driver prepares what comes again
OUTBOX = Outbox(notify=True)


@pytest.fixture(scope="module")
def bouncer(postgres_server: Server) -> Iterator[PgBouncer]:
    with PgBouncer(postgres_server.url, size=2) as bouncer:
        yield bouncer


@asynccontextmanager
async def over_psycopg(url: str) -> AsyncIterator[Any]:
    with psycopg.connect(url, prepare_threshold=None) as connection:
        yield connection


@asynccontextmanager
async def over_psycopg2(url: str) -> AsyncIterator[Any]:
    with closing(psycopg2.connect(url)) as connection:
        yield connection
        connection.commit()


@asynccontextmanager
async def over_asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url, statement_cache_size=0)
    async with connection.transaction():
        yield connection
    await connection.close()


@asynccontextmanager
async def over_sqlalchemy(url: str) -> AsyncIterator[Any]:
    address = url.replace("postgresql:", "postgresql+psycopg:")
    engine = sqlalchemy.create_engine(address, poolclass=NullPool, connect_args={"prepare_threshold": None})
    with engine.begin() as connection:
        yield connection
    engine.dispose()


@asynccontextmanager
async def over_sqlalchemy_asyncpg(url: str) -> AsyncIterator[Any]:
    engine = sqlalchemy.ext.asyncio.create_async_engine(
        url.replace("postgresql:", "postgresql+asyncpg:"),
        poolclass=NullPool,
        connect_args={
            "statement_cache_size": 0, "prepared_statement_cache_size": 0,
            "prepared_statement_name_func": lambda: f"__asyncpg_{uuid4()}__",
        },
    )  # fmt: skip
    async with engine.begin() as connection:
        yield connection
    await engine.dispose()


@asynccontextmanager
async def over_our_engine(url: str) -> AsyncIterator[Any]:
    engine = async_engine(url)
    async with engine.begin() as connection:
        yield connection
    await engine.dispose()


DRIVERS = {
    "psycopg": over_psycopg,
    "psycopg2": over_psycopg2,
    "asyncpg": over_asyncpg,
    "sqlalchemy": over_sqlalchemy,
    "sqlalchemy-asyncpg": over_sqlalchemy_asyncpg,
    "our engine": over_our_engine,
}


@pytest.mark.parametrize("driver", DRIVERS)
async def test_driver_publishes_through_it(postgres_address: Address, bouncer: PgBouncer, driver: str) -> None:
    url = bouncer.url_of(postgres_address.url.rpartition("/")[2])
    is_async = driver in ("asyncpg", "sqlalchemy-asyncpg", "our engine")

    for number in range(TRANSACTIONS):
        async with DRIVERS[driver](url) as connection:
            draft = Draft("memo.created", {"n": number}, key=str(number), to="null:a")
            for is_repeated in (False, True):
                made = (
                    await OUTBOX.apublish_many(connection, [draft])
                    if is_async
                    else await asyncio.to_thread(OUTBOX.publish_many, connection, [draft])
                )
                assert [each.duplicate for each in made] == [is_repeated]

    assert postgres_address.counts() == {"events": TRANSACTIONS, "deliveries": TRANSACTIONS, "contents": 0}


async def test_engine_that_is_kept_publishes_through_it(postgres_address: Address, bouncer: PgBouncer) -> None:
    """Its connections are used again and again, so that the driver has something to prepare."""
    engine = async_engine(bouncer.url_of(postgres_address.url.rpartition("/")[2]), pool_size=4)

    async def publish(number: int) -> None:
        for each in range(TRANSACTIONS):
            async with engine.begin() as connection:
                await OUTBOX.apublish(connection, "memo.created", {}, key=f"{number}-{each}", to="null:a")

    await asyncio.gather(*map(publish, range(4)))
    await engine.dispose()

    assert postgres_address.count("sendonce_events") == 4 * TRANSACTIONS
