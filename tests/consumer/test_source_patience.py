"""How long a broker waits to hear of what one consumer has, and who gets it then."""

import asyncio
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any

import nats
import pytest
from nats.js.api import AckPolicy, ConsumerConfig
from redis.asyncio import Redis

from sendonce.consumer.incoming import Incoming, Taken
from tests.consumer.brokers import NatsPlace, RedisPlace, opened
from tests.consumer.conftest import place_of
from tests.consumer.test_sources import bodies, take
from tests.consumer.working import Bank, deduct, until, working
from tests.processes import SECONDS

HOUR = 3_600_000


@pytest.fixture
def redis_stream(redis_url: str) -> RedisPlace:
    return RedisPlace(redis_url)


async def an_hour_passes(place: RedisPlace, *taken: Taken) -> None:
    """Have Redis think that these were given an hour ago."""
    client = Redis.from_url(place.address)
    for each in await client.xpending_range(place.name, "wallet", "-", "+", 100):
        id = bytes(each["message_id"])  # type: ignore[arg-type]
        if id.decode() in [str(one.mark) for one in taken]:
            name = bytes(each["consumer"])  # type: ignore[arg-type]
            await client.xclaim(place.name, "wallet", name, 0, [id], idle=HOUR, justid=True)
    await client.aclose()


async def test_redis_source_takes_over_what_a_dead_consumer_has_left(redis_stream: RedisPlace) -> None:
    await redis_stream.put(("m-1", b"one"), ("m-2", b"two"), ("m-3", b"three"))
    async with opened(redis_stream.source()) as dead:
        left = await take(dead, 3)
        await dead.acknowledge(left[1])
        await an_hour_passes(redis_stream, left[0])

        async with opened(redis_stream.source()) as other:
            found = await take(other, 1)
            rest = await other.take(64, 0.05)

    assert [(each.id, each.body, each.is_again) for each in found] == [("m-1", b"one", True)]
    assert rest == [], "what its consumer has had for less than its patience stays its own"


async def test_redis_source_takes_nothing_from_one_that_says_it_still_works(redis_stream: RedisPlace) -> None:
    await redis_stream.put(("m-1", b"one"), ("m-2", b"two"))
    async with opened(redis_stream.source()) as slow:
        in_hand = await take(slow, 2)
        await an_hour_passes(redis_stream, *in_hand)
        await slow.extend(in_hand[:1])

        async with opened(redis_stream.source()) as other:
            found = await take(other, 1)

    assert bodies(found) == [b"two"]


async def test_redis_source_takes_over_all_that_was_left_a_few_at_a_time(redis_stream: RedisPlace) -> None:
    await redis_stream.put(*[(f"m-{number}", b"%d" % number) for number in range(30)])
    async with opened(redis_stream.source()) as dead:
        left = await take(dead, 30)
        await an_hour_passes(redis_stream, *left)

        async with opened(redis_stream.source()) as other:
            found = await take(other, 30, most=7)

    assert sorted(bodies(found)) == sorted(bodies(left))
    assert {each.is_again for each in found} == {True}


async def a_durable(place: NatsPlace, **settings: Any) -> None:
    client = await nats.connect(place.address)
    config = ConsumerConfig(durable_name="wallet", ack_policy=AckPolicy.EXPLICIT, **settings)
    await client.jetstream().add_consumer(place.name, config)
    await client.close()


@pytest.mark.parametrize(
    ("settings", "patience"),
    [({"ack_wait": 7.0}, 7.0), ({"backoff": [4.0, 9.0], "max_deliver": 3}, 4.0), ({}, 30.0)],
)
async def test_nats_source_follows_the_durable_that_is_there(
    nats_url: str, settings: dict[str, Any], patience: float
) -> None:
    place = NatsPlace(nats_url)
    await place.make()
    await a_durable(place, **settings)

    async with opened(place.source()) as source:
        assert source.patience == patience


async def test_nats_source_that_says_it_still_works_keeps_its_message(nats_url: str) -> None:
    place = NatsPlace(nats_url)
    await place.make()
    await place.put(("m-1", b"one"))
    wait = 1.0
    async with opened(place.source(patience=wait)) as slow, opened(place.source(patience=wait)) as other:
        in_hand = await take(slow, 1)

        async with asyncio.timeout(SECONDS):
            # Once without a pause of this machine that alone would be too long.
            while True:
                found: list[Taken] = []
                worst, began = 0.0, time.monotonic()
                while (said := time.monotonic()) < began + 2.5 * wait:
                    await slow.extend(in_hand)
                    found += await other.take(64, wait / 10)
                    worst = max(worst, time.monotonic() - said)
                if worst < wait / 2:
                    break
        assert found == []

        again = await take(other, 1)

    assert [(each.id, each.is_again) for each in again] == [("m-1", True)]


async def test_consumer_says_of_all_it_has_that_it_still_works(nats_url: str, pg_dsn: str) -> None:
    """Also of what waits while another is tried alone."""
    bank, place = Bank(pg_dsn), NatsPlace(nats_url)
    await bank.make()
    await place.make()
    await a_durable(place, ack_wait=1.0)
    await place.put(*[(f"m-{number}", b'{"amount": 5}') for number in range(3)])
    async with opened(place.source()) as dead:
        await take(dead, 3)
    said: dict[str, set[bytes]] = defaultdict(set)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def heard(message: Any) -> None:
        said[message.data.decode()].add(message.subject.split(".")[5].encode())

    async def waits(connection: Any, message: Incoming) -> None:
        begun.set()
        await go_on.wait()
        await deduct(connection, message)

    client = await nats.connect(nats_url)
    await client.subscribe(f"$JS.ACK.{place.name}.>", cb=heard)
    async with working(bank, place, waits):
        await begun.wait()
        await until(lambda: len(said["+WPI"]) == 3)
        go_on.set()
        await until(lambda: len(bank.deducted) == 3)
    await client.close()

    assert bank.deducted == ["m-0", "m-1", "m-2"]


@pytest.mark.parametrize("kind", ["nats", pytest.param("amqp", marks=pytest.mark.more), "redis"])
async def test_consumer_shares_its_work_with_another_of_its_name(
    request: pytest.FixtureRequest, kind: str, pg_dsn: str
) -> None:
    bank, place = Bank(pg_dsn), place_of(kind, request)
    await bank.make()
    await place.make()
    await place.put(*[(f"m-{number}", b'{"amount": 5}') for number in range(40)])
    at_work: set[int] = set()
    both = asyncio.Event()

    def of(number: int) -> Any:
        async def waits_for_the_other(connection: Any, message: Incoming) -> None:
            at_work.add(number)
            if at_work == {1, 2}:
                both.set()
            await both.wait()
            await deduct(connection, message)

        return waits_for_the_other

    async with AsyncExitStack() as stack:
        for number in (1, 2):
            await stack.enter_async_context(working(bank, place, of(number), prefetch=8))
        await until(lambda: len(bank.deducted) >= 40)

    assert len(set(bank.deducted)) == len(bank.deducted) == 40
