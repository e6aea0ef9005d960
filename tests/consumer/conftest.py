"""Places at real brokers."""

import pytest
import pytest_asyncio

from tests.consumer.brokers import AmqpPlace, KafkaPlace, NatsPlace, Place, RedisPlace

KINDS = ("nats", "amqp", "redis", "kafka")


def place_of(kind: str, request: pytest.FixtureRequest) -> Place:
    """A new place at a broker of this kind."""
    match kind:
        case "nats":
            return NatsPlace(request.getfixturevalue("nats_url"))
        case "amqp":
            return AmqpPlace(request.getfixturevalue("rabbitmq_url"))
        case "redis":
            return RedisPlace(request.getfixturevalue("redis_url"))
        case _:
            return KafkaPlace(request.getfixturevalue("kafka_cluster"))


@pytest_asyncio.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest) -> Place:
    """A place at each kind of broker in turn."""
    found = place_of(request.param, request)
    await found.make()
    return found
