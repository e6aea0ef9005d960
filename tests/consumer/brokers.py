"""A place at each kind of broker: messages are put there by the bare client, and consumed by a source of ours."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from sendonce.consumer.sources.amqp import AmqpSource
from sendonce.consumer.sources.kafka import KafkaSource
from sendonce.consumer.sources.nats import NatsSource
from sendonce.consumer.sources.protocol import Source
from sendonce.consumer.sources.redis import RedisSource
from tests.servers.kafka import Kafka


class Place(ABC):
    """One stream, queue or topic of the test's own."""

    def __init__(self) -> None:
        self.name = f"t{uuid4().hex[:12]}"

    @abstractmethod
    async def make(self) -> None:
        """Make it."""

    @abstractmethod
    async def put(self, *messages: tuple[str | None, bytes]) -> None:
        """Put messages there, each with its id."""

    @abstractmethod
    def source(self, consumer: str = "wallet", prefetch: int = 64) -> Source:
        """A new source of it, not open yet."""


class NatsPlace(Place):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    async def make(self) -> None:
        import nats

        client = await nats.connect(self.url)
        await client.jetstream().add_stream(name=self.name, subjects=[f"{self.name}.>"])
        await client.close()

    async def put(self, *messages: tuple[str | None, bytes]) -> None:
        import nats

        client = await nats.connect(self.url)
        for id, body in messages:
            headers = {} if id is None else {"Nats-Msg-Id": id}
            await client.jetstream().publish(f"{self.name}.new", body, headers={**headers, "x-tenant": "acme"})
        await client.close()

    def source(self, consumer: str = "wallet", prefetch: int = 64) -> Source:
        import nats

        return NatsSource(
            lambda: nats.connect(self.url, allow_reconnect=False), self.name, consumer=consumer, prefetch=prefetch
        )


class AmqpPlace(Place):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    async def make(self) -> None:
        import aio_pika

        async with await aio_pika.connect(self.url) as connection:
            channel = await connection.channel()
            await channel.declare_queue(self.name, durable=True)

    async def put(self, *messages: tuple[str | None, bytes]) -> None:
        import aio_pika

        async with await aio_pika.connect(self.url) as connection:
            channel = await connection.channel()
            for id, body in messages:
                message = aio_pika.Message(body, message_id=id, headers={"x-tenant": "acme"})
                await channel.default_exchange.publish(message, self.name)

    def source(self, consumer: str = "wallet", prefetch: int = 64) -> Source:
        import aio_pika

        return AmqpSource(lambda: aio_pika.connect(self.url), self.name, consumer=consumer, prefetch=prefetch)


class RedisPlace(Place):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    async def make(self) -> None:
        """It is made by its first message, or its first consumer."""

    async def put(self, *messages: tuple[str | None, bytes]) -> None:
        from redis.asyncio import Redis

        client = Redis.from_url(self.url)
        for id, body in messages:
            fields: dict[str, str | bytes] = {} if id is None else {"id": id}
            await client.xadd(self.name, {**fields, "x-tenant": "acme", "body": body})  # type: ignore[dict-item]
        await client.aclose()

    def source(self, consumer: str = "wallet", prefetch: int = 64) -> Source:
        from redis.asyncio import Redis

        return RedisSource(lambda: Redis.from_url(self.url), self.name, consumer=consumer, prefetch=prefetch)


class KafkaPlace(Place):
    def __init__(self, cluster: Kafka) -> None:
        super().__init__()
        self.cluster = cluster

    async def make(self) -> None:
        self.cluster.topic(self.name, 1)

    async def put(self, *messages: tuple[str | None, bytes]) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.cluster.bootstrap})
        for id, body in messages:
            headers = {"x-tenant": "acme"} | ({} if id is None else {"sendonce-id": id})
            producer.produce(self.name, body, headers=list(headers.items()))
        left = await asyncio.to_thread(producer.flush, 60)
        assert left == 0

    def source(self, consumer: str = "wallet", prefetch: int = 64) -> Source:
        settings = {"bootstrap.servers": self.cluster.bootstrap}
        return KafkaSource(settings, self.name, consumer=consumer, prefetch=prefetch)


@asynccontextmanager
async def opened(source: Source) -> AsyncIterator[Source]:
    """The source, open for the block."""
    await source.open()
    try:
        yield source
    finally:
        await source.close()
