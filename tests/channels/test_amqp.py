"""amqp: on a real RabbitMQ. What each answer and trouble comes to, and what becomes of neighbours on a channel."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractQueue

from sendonce.channels.brokers.amqp import AmqpChannel, AmqpProfile
from sendonce.channels.protocol import Channel, Message
from sendonce.domain.answers import BLOCKED, BROKER_LOST, NACK, NOT_CONFIRMED_IN_TIME, UNROUTABLE
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Refused, Unknown
from sendonce.errors import ConfigError
from tests.channels.broker_troubles import place, tls_front
from tests.channels.contract import ChannelContract
from tests.channels.sending import PAYLOAD, message_to
from tests.channels.troubles import authority
from tests.servers.rabbitmq import RabbitMQ

MARKS = (b"Gr\xc3\xbc\xc3\x9fe",)
SECONDS = 25.0


@pytest.fixture(scope="module")
def own_rabbitmq() -> Iterator[RabbitMQ]:
    """A broker of this module's own: it is frozen, filled, killed and told to raise alarms."""
    with RabbitMQ() as server:
        yield server


@asynccontextmanager
async def channel_to(url: str, **settings: Any) -> AsyncIterator[AmqpChannel]:
    channel = AmqpChannel(AmqpProfile(name="main", url=url, **settings))
    try:
        yield channel
    finally:
        await channel.close()


@asynccontextmanager
async def broker(url: str) -> AsyncIterator[AbstractChannel]:
    connection = await aio_pika.connect(url)
    async with connection:
        yield await connection.channel()


async def a_queue(channel: AbstractChannel, **arguments: Any) -> AbstractQueue:
    """A new durable queue; it goes when nobody has used it for ten minutes."""
    return await channel.declare_queue(
        f"q{uuid4().hex[:8]}", durable=True, arguments={"x-expires": 600_000, **arguments}
    )


async def an_exchange(channel: AbstractChannel, queue: AbstractQueue | None = None) -> str:
    exchange = await channel.declare_exchange(f"e{uuid4().hex[:8]}", durable=True)
    if queue is not None:
        await queue.bind(exchange, "placed")
    return exchange.name


async def count(queue: AbstractQueue) -> int:
    return (await queue.declare()).message_count or 0


def new_message(to: str, **changes: Any) -> Message:
    return message_to(f"amqp:main/{to}", **{"recorded_at": datetime.now(UTC), **changes})


class TestAmqpInTrouble(ChannelContract):
    column = "amqp:"

    @pytest.fixture(autouse=True)
    def server(self, rabbitmq_url: str) -> None:
        self.url = rabbitmq_url

    @asynccontextmanager
    async def in_trouble(self, trouble: str) -> AsyncIterator[tuple[Channel, Message]]:
        before, _, after = self.url.partition("@")
        port = int(after.partition("/")[0].rpartition(":")[2])
        async with broker(self.url) as channel:
            queue = await a_queue(channel)
        async with place(trouble, port, MARKS) as (there, tls):
            url = f"amqp{tls}:{before.partition(':')[2]}@{there}/{after.partition('/')[2]}"
            async with channel_to(url) as own:
                yield own, new_message(f"/{queue.name}")


async def test_rabbitmq_has_what_the_message_has(rabbitmq_url: str) -> None:
    async with channel_to(rabbitmq_url) as channel, broker(rabbitmq_url) as there:
        queue = await a_queue(there, **{"x-queue-type": "quorum"})
        exchange = await an_exchange(there, queue)
        message = new_message(f"{exchange}/placed", headers=json.dumps({"Traceparent": "00-1"}), subject="ada")

        outcome = await channel.send(message, timeout=SECONDS)
        found = await queue.get(no_ack=True)

    assert outcome == Delivered()
    assert found.body == PAYLOAD.encode()
    assert found.message_id == message.token
    assert found.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
    assert (found.type, found.content_type, found.app_id) == (message.type, "application/json", "sendonce")
    assert {key: value for key, value in found.headers.items() if key != "x-delivery-count"} == {
        "traceparent": "00-1",
        "sendonce-id": message.token,
        "sendonce-type": message.type,
        "sendonce-attempt": "1",
        "sendonce-subject": "ada",
    }


async def test_message_for_the_default_exchange_goes_to_the_queue_of_its_key(rabbitmq_url: str) -> None:
    async with channel_to(rabbitmq_url) as channel, broker(rabbitmq_url) as there:
        queue = await there.declare_queue(f"with space {uuid4().hex[:8]}", auto_delete=True)

        outcome = await channel.send(new_message(f"/{queue.name.replace(' ', '%20')}"), timeout=SECONDS)

        assert outcome == Delivered()
        assert await count(queue) == 1


async def test_unroutable_message_fails_and_goes_when_a_queue_is_there(rabbitmq_url: str) -> None:
    async with channel_to(rabbitmq_url) as channel, broker(rabbitmq_url) as there:
        exchange = await an_exchange(there)
        before = await channel.send(new_message(f"{exchange}/placed"), timeout=SECONDS)
        queue = await a_queue(there)
        await queue.bind(exchange, "placed")
        after = await channel.send(new_message(f"{exchange}/placed"), timeout=SECONDS)

    assert isinstance(before, Failed)
    assert before.code == UNROUTABLE.code
    assert after == Delivered()


async def test_exchange_that_is_not_there_fails_alone_and_harms_no_neighbour(rabbitmq_url: str) -> None:
    """Without looking first, all hundred would be in doubt, and half of them in the queue."""
    async with channel_to(rabbitmq_url) as channel, broker(rabbitmq_url) as there:
        queue = await a_queue(there)
        exchange = await an_exchange(there, queue)
        outcomes = await asyncio.gather(
            *[channel.send(new_message(f"{exchange}/placed", key=str(each)), timeout=SECONDS) for each in range(100)],
            channel.send(new_message("no-such-exchange/placed"), timeout=SECONDS),
        )

        assert isinstance(outcomes[-1], Failed)
        assert outcomes[-1].code == "no_exchange"
        assert set(outcomes[:-1]) == {Delivered()}
        assert await count(queue) == 100


async def test_exchange_deleted_meanwhile_leaves_neighbours_in_doubt_and_then_fails(rabbitmq_url: str) -> None:
    async with channel_to(rabbitmq_url) as channel, broker(rabbitmq_url) as there:
        exchange = await an_exchange(there, await a_queue(there))
        assert await channel.send(new_message(f"{exchange}/placed"), timeout=SECONDS) == Delivered()
        await there.exchange_delete(exchange)

        together = await asyncio.gather(
            *[channel.send(new_message(f"{exchange}/placed", key=str(each)), timeout=SECONDS) for each in range(5)]
        )
        alone = await channel.send(new_message(f"{exchange}/placed"), timeout=SECONDS)
        queue = await a_queue(there)
        await there.declare_exchange(exchange, durable=True)
        await queue.bind(exchange, "placed")
        back = await channel.send(new_message(f"{exchange}/placed"), timeout=SECONDS)

    assert {type(each) for each in together} == {Unknown}
    assert {each.code for each in together if isinstance(each, Unknown)} == {"channel_closed"}
    assert isinstance(alone, Failed)
    assert alone.code == "no_exchange"
    assert back == Delivered()


async def test_exchange_deleted_before_one_that_is_alone_on_the_channel_fails_surely(rabbitmq_url: str) -> None:
    async with channel_to(rabbitmq_url) as channel, broker(rabbitmq_url) as there:
        exchange = await an_exchange(there, await a_queue(there))
        assert await channel.send(new_message(f"{exchange}/placed"), timeout=SECONDS) == Delivered()
        await there.exchange_delete(exchange)

        outcome = await channel.send(new_message(f"{exchange}/placed"), timeout=SECONDS)

    assert isinstance(outcome, Failed)
    assert outcome.code == "no_exchange"


async def test_queue_that_is_full_and_rejects_fails(rabbitmq_url: str) -> None:
    async with channel_to(rabbitmq_url) as channel, broker(rabbitmq_url) as there:
        queue = await a_queue(there, **{"x-max-length": 1, "x-overflow": "reject-publish"})
        outcomes = [
            await channel.send(new_message(f"/{queue.name}", key=str(each)), timeout=SECONDS) for each in range(2)
        ]

    assert outcomes == [Delivered(), NACK]


@pytest.mark.more
async def test_message_larger_than_the_limit_is_refused_here_and_one_that_rabbitmq_refuses_alone() -> None:
    with RabbitMQ({"max_message_size": "1000"}) as server:
        async with channel_to(server.url, max_bytes=2000) as channel, broker(server.url) as there:
            queue = await a_queue(there)
            here = await channel.send(new_message(f"/{queue.name}", payload=json.dumps("x" * 2000)), timeout=SECONDS)
            both = await asyncio.gather(
                channel.send(new_message(f"/{queue.name}", payload=json.dumps("x" * 1500)), timeout=SECONDS),
                channel.send(new_message(f"/{queue.name}", key="other"), timeout=SECONDS),
            )
            there_alone = await channel.send(
                new_message(f"/{queue.name}", payload=json.dumps("x" * 1500)), timeout=SECONDS
            )
            after = await channel.send(new_message(f"/{queue.name}"), timeout=SECONDS)

    assert isinstance(here, Refused)
    assert isinstance(both[0], Unknown)
    assert isinstance(there_alone, Refused)
    assert (here.code, there_alone.code) == ("too_big", "too_big")
    assert after == Delivered()


async def test_alarm_leaves_what_was_begun_in_doubt_and_then_nothing_is_written(own_rabbitmq: RabbitMQ) -> None:
    alarm = "{{resource_limit, memory, node()}, []}"
    async with channel_to(own_rabbitmq.url) as channel, broker(own_rabbitmq.url) as there:
        queue = await a_queue(there)
        assert await channel.send(new_message(f"/{queue.name}", key="before"), timeout=SECONDS) == Delivered()
        own_rabbitmq.ctl("eval", f"rabbit_alarm:set_alarm({alarm}).")
        begun = await channel.send(new_message(f"/{queue.name}", key="begun"), timeout=2)
        meanwhile = [await channel.send(new_message(f"/{queue.name}", key=str(each)), timeout=2) for each in range(3)]
        own_rabbitmq.ctl("eval", "rabbit_alarm:clear_alarm({resource_limit, memory, node()}).")
        after = [await channel.send(new_message(f"/{queue.name}", key="after"), timeout=SECONDS)]
        while after[-1] == BLOCKED:
            await asyncio.sleep(0.05)
            after.append(await channel.send(new_message(f"/{queue.name}", key="after"), timeout=SECONDS))

        assert begun == NOT_CONFIRMED_IN_TIME
        assert meanwhile == [BLOCKED] * 3
        assert after[-1] == Delivered()
        assert await count(queue) == 3, "before, begun and after; what was begun has been stored later"


@pytest.mark.slow
async def test_broker_that_stands_still_leaves_doubt_and_one_that_dies_too(own_rabbitmq: RabbitMQ) -> None:
    async with channel_to(own_rabbitmq.url) as channel:
        async with broker(own_rabbitmq.url) as there:
            queue = await a_queue(there)
        assert await channel.send(new_message(f"/{queue.name}"), timeout=SECONDS) == Delivered()
        own_rabbitmq.freeze()
        late = await channel.send(new_message(f"/{queue.name}", key="late"), timeout=0.5)
        sends = [
            asyncio.create_task(channel.send(new_message(f"/{queue.name}", key=str(each)), timeout=3600))
            for each in range(20)
        ]
        await asyncio.sleep(0.1)
        own_rabbitmq.kill()
        outcomes = await asyncio.gather(*sends)
        own_rabbitmq.start()
        back = [await channel.send(new_message(f"/{queue.name}", key="back"), timeout=SECONDS)]
        while not isinstance(back[-1], Delivered):
            await asyncio.sleep(0.1)
            back.append(await channel.send(new_message(f"/{queue.name}", key="back"), timeout=SECONDS))

    assert late == NOT_CONFIRMED_IN_TIME
    assert set(outcomes) == {BROKER_LOST}
    assert not any(isinstance(each, Unknown) for each in back)


async def test_credentials_and_virtual_host_that_are_wrong_are_our_own_fault(own_rabbitmq: RabbitMQ) -> None:
    own_rabbitmq.ctl("add_user", "reader", "x")
    own_rabbitmq.ctl("set_permissions", "reader", "", "", ".*")
    for change, code in (
        (("guest:guest", "guest:wrong"), "our_credentials"),
        (("guest:guest", "nobody:x"), "our_credentials"),
        (("guest:guest", "reader:x"), "our_credentials"),
        ((f"{own_rabbitmq.port}/", f"{own_rabbitmq.port}/nowhere"), "our_server"),
    ):
        async with channel_to(own_rabbitmq.url.replace(*change)) as channel:
            outcome = await channel.send(new_message("amq.direct/placed"), timeout=SECONDS)
        assert isinstance(outcome, Deferred), (change, outcome)
        assert outcome.code == code


async def test_rabbitmq_over_tls_trusts_the_authority_that_is_named(own_rabbitmq: RabbitMQ) -> None:
    ca = authority().cert_pem.bytes().decode()
    async with broker(own_rabbitmq.url) as there:
        queue = await a_queue(there)
    async with tls_front(own_rabbitmq.port) as port:
        url = f"amqps://guest:guest@127.0.0.1:{port}/"
        async with channel_to(url, ca=ca) as channel:
            assert await channel.send(new_message(f"/{queue.name}"), timeout=SECONDS) == Delivered()


@pytest.mark.parametrize("to", ["", "orders", "orders/"])
async def test_address_without_an_exchange_and_a_key_is_refused(rabbitmq_url: str, to: str) -> None:
    async with channel_to(rabbitmq_url) as channel:
        outcome = await channel.send(new_message(to), timeout=SECONDS)

    assert isinstance(outcome, Refused)
    assert outcome.code == "bad_address"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"url": "redis://h"}, "[amqp.main] url must be an address like amqp://user@host:5672/virtual-host"),
        ({"url": "amqp://h?heartbeat=1"}, "[amqp.main] url must not have options"),
        ({"url": "amqp://h/a/b"}, "[amqp.main] url must have one virtual host"),
        ({"url": "amqp://h", "max_bytes": 0}, "[amqp.main] max_bytes must be between 1 and"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        AmqpProfile(name="main", **settings)

    assert str(error.value).startswith(sentence)
