"""`ain_transaction` runs a consumer's transaction again when others were in its way."""

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from sendonce.contrib.sqlalchemy import ain_transaction, async_engine
from tests.inbox.handling import INBOX, effects
from tests.outbox.databases import Address

pytestmark = pytest.mark.requirement("P5")

CONSUMERS = 8
MESSAGES = ("a", "b", "c")


async def consume(engine: AsyncEngine, message_ids: tuple[str, ...], level: str | None) -> int:
    """Handle these in one transaction, one by one; how many were the first."""

    async def work(connection: AsyncConnection) -> int:
        firsts = 0
        await connection.execute(text("select count(*) from memos"))
        for each in message_ids:
            async with INBOX.aonce(connection, "mailer", each) as first:
                if first:
                    firsts += 1
                    number = MESSAGES.index(each)
                    await connection.execute(text(f"insert into memos (id, body) values ({number}, 'handled')"))
        return firsts

    return await ain_transaction(engine, work, isolation_level=level, tries=1000)


@pytest.mark.parametrize("level", [None, "REPEATABLE READ", "SERIALIZABLE"])
async def test_consumers_in_opposite_order_all_come_to_an_end(address: Address, level: str | None) -> None:
    engine = async_engine(address.url)
    try:
        orders = [MESSAGES if n % 2 else MESSAGES[::-1] for n in range(CONSUMERS)]
        firsts = await asyncio.gather(*[consume(engine, order, level) for order in orders])
    finally:
        await engine.dispose()

    assert sum(firsts) == effects(address) == len(MESSAGES)
    assert address.look("select sum(duplicates) from sendonce_receipts") == [(len(MESSAGES) * (CONSUMERS - 1),)]
