"""A place at each kind of broker: messages are put there by the bare client, and consumed by a source of ours."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from aiormq import spec

from sendonce.consumer.sources.amqp import AmqpSource
from sendonce.consumer.sources.kafka import KafkaSource
from sendonce.consumer.sources.nats import NatsSource
from sendonce.consumer.sources.protocol import Source
from sendonce.consumer.sources.redis import RedisSource
from tests.servers.kafka import Kafka


class Place(ABC):
    """One stream, queue or topic of the test's own."""

    def __init__(self, address: str, name: str = "") -> None:
        self.address = address
        self.name = name or f"t{uuid4().hex[:12]}"

    @abstractmethod
    async def make(self) -> None:
        """Make it."""

    @abstractmethod
    async def put(self, *messages: tuple[str | None, bytes]) -> None:
        """Put messages there, each with its id."""

    @abstractmethod
    def source(self, consumer: str = "wallet", prefetch: int = 64, patience: float = 60.0) -> Source:
        """A new source of it, not open yet; what is left by one that died is given again after `patience` seconds."""


class NatsPlace(Place):
    async def make(self) -> None:
        import nats

        client = await nats.connect(self.address)
        await client.jetstream().add_stream(name=self.name, subjects=[f"{self.name}.>"])
        await client.close()

    async def put(self, *messages: tuple[str | None, bytes]) -> None:
        import nats

        client = await nats.connect(self.address)
        for id, body in messages:
            headers = {} if id is None else {"Nats-Msg-Id": id}
            await client.jetstream().publish(f"{self.name}.new", body, headers={**headers, "x-tenant": "acme"})
        await client.close()

    def source(self, consumer: str = "wallet", prefetch: int = 64, patience: float = 60.0) -> Source:
        import nats

        return NatsSource(
            lambda: nats.connect(self.address, allow_reconnect=False),
            self.name, consumer=consumer, prefetch=prefetch, ack_wait=patience,
        )  # fmt: skip


class Nameless(spec.Basic.Properties):
    """What a client writes that gives no ids; ours gives one to whatever has none."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, None if name == "message_id" else value)


class AmqpPlace(Place):
    """`arguments` are those of its queue."""

    def __init__(self, address: str, name: str = "", arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(address, name)
        self.arguments = dict(arguments or {})

    async def make(self) -> None:
        import aio_pika

        async with await aio_pika.connect(self.address) as connection:
            channel = await connection.channel()
            await channel.declare_queue(self.name, durable=True, arguments=self.arguments)

    async def put(self, *messages: tuple[str | None, bytes]) -> None:
        import aio_pika

        async with await aio_pika.connect(self.address) as connection:
            channel = await connection.channel()
            plain = await channel.get_underlay_channel()
            for id, body in messages:
                kind = Nameless if id is None else spec.Basic.Properties
                properties = kind(message_id=id, headers={"x-tenant": "acme"}, delivery_mode=2)
                await plain.basic_publish(body, routing_key=self.name, properties=properties)

    def source(self, consumer: str = "wallet", prefetch: int = 64, patience: float = 60.0) -> Source:
        import aio_pika

        return AmqpSource(lambda: aio_pika.connect(self.address), self.name, consumer=consumer, prefetch=prefetch)


class RedisPlace(Place):
    async def make(self) -> None:
        """It is made by its first message, or its first consumer."""

    async def put(self, *messages: tuple[str | None, bytes]) -> None:
        from redis.asyncio import Redis

        client = Redis.from_url(self.address)
        for id, body in messages:
            fields: dict[str, str | bytes] = {} if id is None else {"id": id}
            await client.xadd(self.name, {**fields, "x-tenant": "acme", "body": body})  # type: ignore[dict-item]
        await client.aclose()

    def source(self, consumer: str = "wallet", prefetch: int = 64, patience: float = 60.0) -> Source:
        from redis.asyncio import Redis

        return RedisSource(
            lambda: Redis.from_url(self.address), self.name, consumer=consumer, prefetch=prefetch, patience=patience
        )


class KafkaPlace(Place):
    """A topic of one partition, made where the cluster itself is given: it takes no such wish over the wire."""

    def __init__(self, address: str, name: str = "", cluster: Kafka | None = None) -> None:
        super().__init__(address, name)
        self.cluster = cluster

    async def make(self) -> None:
        assert self.cluster is not None
        self.cluster.topic(self.name, 1)

    async def put(self, *messages: tuple[str | None, bytes]) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.address})
        for id, body in messages:
            headers = {"x-tenant": "acme"} | ({} if id is None else {"sendonce-id": id})
            producer.produce(self.name, body, headers=list(headers.items()))
        left = await asyncio.to_thread(producer.flush, 60)
        assert left == 0

    def source(self, consumer: str = "wallet", prefetch: int = 64, patience: float = 60.0) -> Source:
        # The mock cluster lets a new member wait for the session of one that has left, and knows groups by name alone.
        settings = {"bootstrap.servers": self.address, "session.timeout.ms": int(min(patience, 6.0) * 1000)}
        return KafkaSource(settings, self.name, consumer=f"{consumer}-{self.name}", prefetch=prefetch)


KINDS: dict[str, type[Place]] = {"nats": NatsPlace, "amqp": AmqpPlace, "redis": RedisPlace, "kafka": KafkaPlace}


@asynccontextmanager
async def opened(source: Source) -> AsyncIterator[Source]:
    """The source, open for the block."""
    await source.open()
    try:
        yield source
    finally:
        await source.close()
