"""Sources, built from the profiles that channels are built from: the same address, password and TLS."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from sendonce.channels.brokers.link import NotOpen
from sendonce.channels.brokers.profile import BrokerProfile
from sendonce.consumer.registry import Consumer
from sendonce.consumer.sources.protocol import Source, SourceLost

if TYPE_CHECKING:
    from aio_pika.abc import AbstractConnection
    from nats.aio.client import Client
    from redis.asyncio import Redis

    from sendonce.channels.brokers.amqp import AmqpProfile
    from sendonce.channels.brokers.kafka import KafkaProfile
    from sendonce.channels.brokers.nats import NatsProfile
    from sendonce.channels.brokers.redis import RedisProfile

# Longer than a source waits for what comes.
_CALL_SECONDS = 10.0


def build_source(consumer: Consumer, profile: BrokerProfile) -> Source:
    """Return the source of this consumer, not open yet."""
    return _BUILD[profile.scheme](consumer, profile)


def _amqp(consumer: Consumer, profile: BrokerProfile) -> Source:
    from sendonce.consumer.sources.amqp import AmqpSource

    connect = partial(_connect_amqp, cast("AmqpProfile", profile))
    return AmqpSource(connect, consumer.path, consumer=consumer.name, prefetch=consumer.prefetch)


async def _connect_amqp(profile: "AmqpProfile") -> "AbstractConnection":
    import aio_pika
    from aiormq.exceptions import AMQPError

    from sendonce.channels.brokers.amqp import not_open

    try:
        return await aio_pika.connect(profile.server(), ssl_context=profile.tls(), timeout=_CALL_SECONDS)
    except (AMQPError, OSError, RuntimeError) as error:
        raise SourceLost(f"RabbitMQ cannot be reached: {not_open(error).message}") from None


def _nats(consumer: Consumer, profile: BrokerProfile) -> Source:
    from sendonce.consumer.sources.nats import NatsSource

    connect = partial(_connect_nats, cast("NatsProfile", profile))
    return NatsSource(connect, consumer.path, consumer=consumer.name, prefetch=consumer.prefetch)


async def _connect_nats(profile: "NatsProfile") -> "Client":
    from sendonce.channels.brokers.nats import any_server, connect

    try:
        return await any_server(profile, partial(connect, profile))
    except NotOpen as error:
        raise SourceLost(f"NATS cannot be reached: {error.outcome.message}") from None


def _kafka(consumer: Consumer, profile: BrokerProfile) -> Source:
    from sendonce.consumer.sources.kafka import KafkaSource

    settings = cast("KafkaProfile", profile).connecting()
    return KafkaSource(settings, consumer.path, consumer=consumer.name, prefetch=consumer.prefetch)


def _redis(consumer: Consumer, profile: BrokerProfile) -> Source:
    from sendonce.consumer.sources.redis import RedisSource

    connect = partial(_client_of_redis, cast("RedisProfile", profile))
    return RedisSource(connect, consumer.path, consumer=consumer.name, prefetch=consumer.prefetch)


def _client_of_redis(profile: "RedisProfile") -> "Redis":
    from redis.asyncio import ConnectionPool, Redis

    kind, arguments = profile.connecting()
    pool = ConnectionPool(kind, socket_connect_timeout=_CALL_SECONDS, socket_timeout=_CALL_SECONDS, **arguments)
    return Redis.from_pool(pool)


_BUILD: dict[str, Callable[[Consumer, BrokerProfile], Source]] = {
    "amqp": _amqp,
    "kafka": _kafka,
    "nats": _nats,
    "redis": _redis,
}
