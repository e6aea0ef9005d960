"""However many sends begin at once where there is no connection yet: one dials, and the others wait for it.

Without that each of them would open its own, and what was on the ones that are dropped is in doubt.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from uuid import uuid4

import aio_pika
import nats
import pytest

from sendonce.channels.brokers.amqp import AmqpProfile
from sendonce.channels.brokers.nats import NatsProfile
from sendonce.channels.brokers.profile import BrokerProfile
from sendonce.channels.brokers.redis import RedisProfile
from sendonce.domain.outcomes import Delivered
from tests.channels.broker_troubles import pass_on
from tests.channels.sending import message_to
from tests.channels.troubles import HOST, raw_server
from tests.processes import SECONDS

SENDS = 150


@asynccontextmanager
async def counted(url: str) -> AsyncIterator[tuple[str, list[int]]]:
    """The same address by way of a proxy, and an entry for each connection through it."""
    dials: list[int] = []
    before, _, after = url.partition("127.0.0.1:")
    port, slash, rest = after.partition("/")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dials.append(len(dials))
        upstream, downstream = await asyncio.open_connection(HOST, int(port))
        back = asyncio.create_task(pass_on(upstream, writer))
        try:
            await pass_on(reader, downstream)
        finally:
            back.cancel()
            downstream.transport.abort()
            await asyncio.wait([back])

    async with raw_server(connected) as own:
        yield f"{before}{HOST}:{own}{slash}{rest}", dials


async def dials_of(profile: BrokerProfile, address: str, dials: list[int]) -> int:
    """How many connections so many sends take that begin at once on a new channel; all of them arrive."""
    channel = profile.channel()
    now = datetime.now(UTC)
    messages = [message_to(f"{profile.beginning}{address}", key=str(each), recorded_at=now) for each in range(SENDS)]
    outcomes = await asyncio.gather(*[channel.send(each, timeout=SECONDS) for each in messages])
    await channel.close()  # type: ignore[attr-defined]

    assert {type(each) for each in outcomes} == {Delivered}
    return len(dials)


async def test_nats_is_dialled_once_however_many_sends_begin_at_once(nats_url: str) -> None:
    stream = f"S{uuid4().hex[:8]}"
    client = await nats.connect(nats_url)
    await client.jetstream().add_stream(name=stream, subjects=[f"{stream}.>"])
    await client.close()

    async with counted(nats_url) as (url, dials):
        assert await dials_of(NatsProfile(name="main", url=url), f"{stream}.a", dials) == 1


async def test_rabbitmq_is_dialled_once_however_many_sends_begin_at_once(rabbitmq_url: str) -> None:
    queue = f"q{uuid4().hex[:8]}"
    async with await aio_pika.connect(rabbitmq_url) as connection:
        await (await connection.channel()).declare_queue(queue, durable=True)

    async with counted(rabbitmq_url) as (url, dials):
        assert await dials_of(AmqpProfile(name="main", url=url), f"/{queue}", dials) == 1


@pytest.mark.parametrize("lanes", [1, 4])
async def test_redis_is_dialled_once_for_each_lane_at_most(redis_url: str, lanes: int) -> None:
    async with counted(redis_url) as (url, dials):
        profile = RedisProfile(name="main", url=url, lanes=lanes)

        assert await dials_of(profile, f"s{uuid4().hex[:8]}", dials) <= lanes
