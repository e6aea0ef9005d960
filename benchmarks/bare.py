"""Each broker's client alone: confirmed messages per second, 200 on their way at once, no database, no engine."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aio_pika
import nats
import redis.asyncio
import uvloop
from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as Report

IN_FLIGHT = 200
BODY = b'{"text": "' + b"x" * 490 + b'"}'
HEADERS = {"sendonce-type": "order.placed"}


def seconds(kind: str, url: str, place: str, count: int) -> float:
    """How long `count` messages take from the first publish to the last confirm."""
    if kind == "kafka":
        return _kafka(url, place, count)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run({"nats": _nats, "amqp": _amqp, "redis": _redis}[kind](url, place, count))


async def _windowed(send: Callable[[int], Awaitable[object]], count: int) -> float:
    numbers = iter(range(count))

    async def one() -> None:
        for number in numbers:
            await send(number)

    begun = time.monotonic()
    await asyncio.gather(*[one() for _ in range(IN_FLIGHT)])
    return time.monotonic() - begun


async def _nats(url: str, subject: str, count: int) -> float:
    client = await nats.connect(url)
    context = client.jetstream(publish_async_max_pending=IN_FLIGHT)

    async def send(number: int) -> None:
        await (await context.publish_async(subject, BODY, headers={"Nats-Msg-Id": f"bare-{number}", **HEADERS}))

    try:
        return await _windowed(send, count)
    finally:
        await client.close()


async def _amqp(url: str, queue: str, count: int) -> float:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)

        async def send(number: int) -> None:
            message = aio_pika.Message(
                BODY, message_id=f"bare-{number}", headers={**HEADERS}, delivery_mode=aio_pika.DeliveryMode.PERSISTENT
            )
            await channel.default_exchange.publish(message, queue)

        return await _windowed(send, count)


async def _redis(url: str, stream: str, count: int) -> float:
    pool = redis.asyncio.BlockingConnectionPool.from_url(url, max_connections=32)
    client = redis.asyncio.Redis(connection_pool=pool)

    async def send(number: int) -> None:
        fields: dict[Any, Any] = {"id": f"bare-{number}", "body": BODY, **HEADERS}
        await client.xadd(stream, fields)

    try:
        return await _windowed(send, count)
    finally:
        await client.aclose()
        await pool.aclose()


def _kafka(url: str, topic: str, count: int) -> float:
    producer = Producer({"bootstrap.servers": url, "enable.idempotence": True, "linger.ms": 1})
    done = 0

    def reported(error: KafkaError | None, _: Report) -> None:
        nonlocal done
        assert error is None, error
        done += 1

    begun = time.monotonic()
    for number in range(count):
        while number - done >= IN_FLIGHT:
            producer.poll(0.1)
        producer.produce(topic, BODY, headers={"sendonce-id": f"bare-{number}", **HEADERS}, on_delivery=reported)
    while done < count:
        producer.poll(0.1)
    return time.monotonic() - begun
