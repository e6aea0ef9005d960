"""kafka: on librdkafka's mock cluster, over TCP. It has no users and no disks: what those do is not tested here."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from sendonce.channels.brokers import kafka
from sendonce.channels.brokers.kafka import KafkaChannel, KafkaProfile
from sendonce.channels.protocol import Channel, Message
from sendonce.domain.answers import NO_ACCESS, NOT_CONFIRMED_IN_TIME
from sendonce.domain.outcomes import Delivered, Failed, Outcome, Refused, Unknown
from sendonce.errors import ConfigError
from tests.channels.broker_troubles import place
from tests.channels.contract import ChannelContract
from tests.channels.sending import PAYLOAD, message_to
from tests.servers.kafka import Kafka

SECONDS = 25.0
# What the mock answers by closing the connection, each time it is asked.
_HANGS_UP = [-195] * 2000


@asynccontextmanager
async def channel_to(bootstrap: str, **settings: Any) -> AsyncIterator[KafkaChannel]:
    channel = KafkaChannel(KafkaProfile(name="main", servers=tuple(bootstrap.split(",")), **settings))
    try:
        yield channel
    finally:
        await channel.close()


def new_message(to: str, **changes: Any) -> Message:
    return message_to(f"kafka:main/{to}", **{"recorded_at": datetime.now(UTC), **changes})


def consumed(cluster: Kafka, topic: str, count: int, seconds: float = SECONDS) -> list[Any]:
    """The first messages of a topic, so many or those that come in time."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": uuid4().hex, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found = consumer.consume(count, seconds)
    consumer.close()
    return found


class TestKafkaInTrouble(ChannelContract):
    """librdkafka dials where the cluster says, past any proxy: what is cut or garbled on the way is a connection that
    the cluster closes, again and again."""

    column = "kafka:"

    @asynccontextmanager
    async def in_trouble(self, trouble: str) -> AsyncIterator[tuple[Channel, Message]]:
        async with AsyncExitStack() as stack:
            cluster = stack.enter_context(Kafka())
            topic = cluster.topic("t")
            short = {"message_timeout": timedelta(seconds=1)}
            port = int(cluster.bootstrap.split(",")[0].rpartition(":")[2])
            if trouble in ("connection refused", "connect timeout", "TLS error", "DNS error") or "before" in trouble:
                stack.enter_context(pytest.MonkeyPatch.context()).setattr(kafka, "ASK_SECONDS", 1.0)
                there, tls = await stack.enter_async_context(place(trouble, port, ()))
                yield await stack.enter_async_context(channel_to(there, tls=bool(tls), **short)), new_message(topic)
                return
            channel = await stack.enter_async_context(channel_to(cluster.bootstrap, **short))
            # A busy machine may need longer than that for the first connection.
            while not isinstance(await channel.send(new_message(topic, key="first"), timeout=SECONDS), Delivered):
                await asyncio.sleep(0.1)
            if trouble == "read timeout":
                cluster.slow(60_000)
            else:
                cluster.fail(*_HANGS_UP)
            yield channel, new_message(topic)


@pytest.mark.parametrize(("by", "key"), [("none", None), ("subject", b"ada")])
async def test_kafka_has_what_the_message_has(kafka_cluster: Kafka, by: str, key: bytes | None) -> None:
    topic = kafka_cluster.topic(f"t{uuid4().hex[:8]}", 1)
    message = new_message(topic, headers=json.dumps({"Traceparent": "00-1"}), subject="ada")

    async with channel_to(kafka_cluster.bootstrap, key=by) as channel:
        outcome = await channel.send(message, timeout=SECONDS)
    [found] = await asyncio.to_thread(consumed, kafka_cluster, topic, 1)

    assert outcome == Delivered(f"{topic}:0:0")
    assert (found.key(), found.value()) == (key, PAYLOAD.encode())
    assert dict(found.headers() or ()) == {
        "traceparent": b"00-1",
        "sendonce-id": message.token.encode(),
        "sendonce-type": message.type.encode(),
        "sendonce-attempt": b"1",
        "sendonce-subject": b"ada",
        "content-type": b"application/json",
    }


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (10, (Refused, "too_big")),
        (29, (type(NO_ACCESS), "our_credentials")),
        (87, (Refused, "kafka_invalid_record")),
        (-1, (Unknown, "kafka_unknown")),
    ],
)
async def test_answer_of_the_cluster_means_what_the_table_says(error: int, expected: tuple[type[Outcome], str]) -> None:
    with Kafka() as cluster:
        topic = cluster.topic("t")
        async with channel_to(cluster.bootstrap) as channel:
            cluster.fail(error)
            outcome = await channel.send(new_message(topic), timeout=SECONDS)
            again = [await channel.send(new_message(topic, key=str(each)), timeout=SECONDS) for each in range(2)]

    assert (type(outcome), getattr(outcome, "code", "")) == expected
    assert isinstance(again[-1], Delivered) or error == 29


async def test_cluster_that_is_short_of_replicas_for_ever_leaves_doubt() -> None:
    with Kafka() as cluster:
        topic = cluster.topic("t")
        async with channel_to(cluster.bootstrap, message_timeout=timedelta(seconds=1)) as channel:
            cluster.fail(*[19] * 2000)
            outcome = await channel.send(new_message(topic), timeout=SECONDS)

    assert outcome == NOT_CONFIRMED_IN_TIME


async def test_cluster_that_is_short_of_replicas_for_a_moment_is_waited_for() -> None:
    with Kafka() as cluster:
        topic = cluster.topic("t")
        async with channel_to(cluster.bootstrap) as channel:
            cluster.fail(19, 20, 6)
            outcome = await channel.send(new_message(topic), timeout=SECONDS)

    assert isinstance(outcome, Delivered)


async def test_brokers_that_are_away_get_nothing_written_later() -> None:
    """What was given up is not sent when they are back: message_timeout is below the time that a send has."""
    with Kafka() as cluster:
        topic = cluster.topic("t", 1)
        async with channel_to(cluster.bootstrap, message_timeout=timedelta(seconds=1)) as channel:
            while not isinstance(await channel.send(new_message(topic, key="before"), timeout=SECONDS), Delivered):
                await asyncio.sleep(0.1)
            cluster.down()
            away = [await channel.send(new_message(topic, key=f"away-{each}"), timeout=SECONDS) for each in range(3)]
            cluster.up()
            back = [await channel.send(new_message(topic, key="back"), timeout=SECONDS)]
            while not isinstance(back[-1], Delivered):
                await asyncio.sleep(0.1)
                back.append(await channel.send(new_message(topic, key="back"), timeout=SECONDS))
        found = await asyncio.to_thread(consumed, cluster, topic, 3, 3.0)
        keys = {value for each in found for name, value in each.headers() or () if name == "sendonce-id"}

    assert not any(isinstance(each, Delivered) for each in away)
    assert isinstance(away[-1], Failed), "once they are known to be away, nothing is written"
    assert not keys & {new_message(topic, key=f"away-{each}").token.encode() for each in range(3)}, (
        "nor was it sent later"
    )


async def test_messages_are_confirmed_each(kafka_cluster: Kafka) -> None:
    topic = kafka_cluster.topic(f"t{uuid4().hex[:8]}", 1)
    async with channel_to(kafka_cluster.bootstrap) as channel:
        outcomes = await asyncio.gather(
            *[channel.send(new_message(topic, key=str(each)), timeout=SECONDS) for each in range(500)]
        )

    assert len(set(outcomes)) == 500
    assert all(isinstance(each, Delivered) for each in outcomes)


@pytest.mark.parametrize("to", ["", "a/b"])
async def test_address_that_is_no_topic_is_refused(kafka_cluster: Kafka, to: str) -> None:
    async with channel_to(kafka_cluster.bootstrap) as channel:
        outcome = await channel.send(new_message(to), timeout=SECONDS)

    assert isinstance(outcome, Refused)
    assert outcome.code == "bad_address"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"servers": ()}, "[kafka.main] servers must be hosts with ports"),
        ({"servers": ("user:pw@h:1",)}, "[kafka.main] servers must be hosts with ports"),
        ({"servers": ("h:1",), "key": "type"}, "[kafka.main] key must be one of none, subject"),
        ({"servers": ("h:1",), "user": "u"}, "[kafka.main] user and password belong together"),
        ({"servers": ("h:1",), "message_timeout": timedelta(0)}, "[kafka.main] message_timeout must be between"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        KafkaProfile(name="main", **settings)

    assert str(error.value).startswith(sentence)
