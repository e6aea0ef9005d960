"""A consumer on real brokers and databases: each message takes effect once; what fails comes again or is given up."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sendonce.consumer.incoming import Incoming
from sendonce.consumer.registry import Mode
from sendonce.domain.policies import DEFAULT_POLICY, override
from sendonce.errors import BadMessage
from sendonce.observability.facts import Consumed, MessageFailed, SourceBack, SourceGone
from tests.consumer.brokers import KINDS, KafkaPlace, Place
from tests.consumer.working import Bank, deduct, until, working
from tests.servers.kafka import Kafka
from tests.servers.nats import Nats
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.redis import Redis

QUICK = override(DEFAULT_POLICY, {"first_delay": "10ms", "longest_delay": "10ms", "max_attempts": 3})


def messages(amount: int) -> list[tuple[str | None, bytes]]:
    return [(f"m-{number}", b'{"amount": 5}') for number in range(amount)]


async def test_consumer_handles_each_message_once_whatever_the_broker(bank: Bank, place: Place) -> None:
    await place.put(*messages(20), *messages(5))

    async with working(bank, place):
        await until(lambda: len(bank.deducted) >= 20)
        await place.put(("m-last", b'{"amount": 5}'))
        await until(lambda: "m-last" in bank.deducted)

    assert bank.deducted == sorted([*(id or "" for id, _ in messages(20)), "m-last"])


async def test_consumer_handler_that_is_no_coroutine_runs_in_a_thread(bank: Bank, stream: Place) -> None:
    def plain(connection: Any, message: Incoming) -> None:
        connection.execute(f"insert into account values ('{message.id}', 1)")

    await stream.put(*messages(10))
    async with working(bank, stream, plain):
        await until(lambda: len(bank.deducted) >= 10)

    assert len(set(bank.deducted)) == 10


async def test_consumer_tries_again_what_failed(bank: Bank, stream: Place) -> None:
    tries: Counter[str] = Counter()

    async def fails_first(connection: Any, message: Incoming) -> None:
        tries[message.id] += 1
        await deduct(connection, message)
        if tries[message.id] == 1:
            raise ValueError("the amount is secret")

    await stream.put(*messages(3))
    async with working(bank, stream, fails_first, policy=QUICK) as work:
        await until(lambda: len(bank.deducted) >= 3)
        await until(lambda: {status for (status,) in bank.rows("status")} == {"Completed"})

    assert bank.deducted == ["m-0", "m-1", "m-2"]
    assert set(tries.values()) == {2}
    assert {(each.code, each.is_dead) for each in work.of(MessageFailed)} == {("ValueError", False)}
    assert not any("secret" in str(row) for row in bank.rows("error_code, error_message"))


async def test_consumer_gives_up_after_its_tries(bank: Bank, stream: Place) -> None:
    async def fails(connection: Any, message: Incoming) -> None:
        await deduct(connection, message)
        raise RuntimeError

    await stream.put(*messages(1))
    async with working(bank, stream, fails, policy=QUICK):
        await until(lambda: bank.rows("status") == [("DeadLettered",)])

    assert bank.deducted == []
    assert bank.rows("reason, begun, finished, error_code") == [("exhausted", 3, 3, "RuntimeError")]


async def test_consumer_in_mode_once_gives_up_at_once(bank: Bank, stream: Place) -> None:
    async def fails(connection: Any, message: Incoming) -> None:
        await deduct(connection, message)
        raise RuntimeError

    await stream.put(*messages(2))
    async with working(bank, stream, fails, mode=Mode.ONCE):
        await until(lambda: len(bank.rows("id")) == 2)

    assert bank.rows("status, reason, begun") == [("DeadLettered", "failed", 1)] * 2
    assert bank.deducted == []


async def test_consumer_gives_up_a_bad_message_at_once(bank: Bank, stream: Place) -> None:
    async def reads(connection: Any, message: Incoming) -> None:
        if "amount" not in message.json():
            raise BadMessage("it has no amount")

    await stream.put(("m-1", b"no json"), ("m-2", b"{}"), (None, b'{"amount": 5}'), ("m-4", b'{"amount": 5}'))
    async with working(bank, stream, reads) as work:
        await until(lambda: len(bank.rows("id")) == 3)
        await until(lambda: any(each.handled for each in work.of(Consumed)))

    assert sorted((reason, message) for reason, message in bank.rows("reason, error_message")) == [
        ("malformed", "it has no id"),
        ("refused", "it has no amount"),
        ("refused", "the body is not JSON"),
    ]


async def test_consumer_gives_up_a_body_that_is_too_large_and_goes_on(bank: Bank, stream: Place) -> None:
    await stream.put(("m-1", b"x" * 200), ("m-2", b'{"amount": 5}'))

    async with working(bank, stream, largest_body=100):
        await until(lambda: bank.deducted == ["m-2"])

    assert bank.rows("reason, message_id") == [("malformed", None)]


async def test_consumer_finds_the_id_where_the_application_says(bank: Bank, stream: Place) -> None:
    await stream.put((None, b'{"amount": 1, "uuid": "u-1"}'), (None, b"not json"))

    async with working(bank, stream, id_of=lambda taken: str(__import__("json").loads(taken.body)["uuid"])):
        await until(lambda: len(bank.rows("id")) == 1)
        await until(lambda: bank.deducted == ["u-1"])

    assert bank.rows("reason, error_message") == [("malformed", "it has no id")]


async def test_consumer_handler_that_takes_too_long_is_cancelled_and_tried_again(bank: Bank, stream: Place) -> None:
    tries: list[int] = []

    async def slow_at_first(connection: Any, message: Incoming) -> None:
        tries.append(message.tries)
        await deduct(connection, message)
        if message.tries == 1:
            await asyncio.Event().wait()

    policy = override(QUICK, {"timeout": "1s"})
    await stream.put(*messages(1))
    async with working(bank, stream, slow_at_first, policy=policy):
        await until(lambda: bank.deducted == ["m-0"])

    assert tries[:2] == [1, 2]


KEEPING = {"appendonly": "yes", "appendfsync": "always"}


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        ("nats", Nats),
        pytest.param("redis", lambda: Redis(KEEPING), marks=pytest.mark.more),
        pytest.param("amqp", RabbitMQ, marks=pytest.mark.more),
    ],
)
async def test_consumer_survives_its_broker(
    bank: Bank, kind: str, start: Callable[[], Nats | RabbitMQ | Redis]
) -> None:
    with start() as server:
        place = KINDS[kind](server.url)
        await place.make()
        await place.put(*messages(5))
        async with working(bank, place) as work:
            await until(lambda: len(bank.deducted) == 5)
            server.kill()
            await until(lambda: len(work.of(SourceGone)) == 1)
            server.start()
            await place.put(("m-5", b'{"amount": 5}'))
            await until(lambda: len(bank.deducted) == 6)

        assert len(work.of(SourceBack)) == 1
    assert len(set(bank.deducted)) == 6


@pytest.mark.more
async def test_consumer_goes_on_when_kafka_is_back(bank: Bank) -> None:
    with Kafka() as cluster:
        place = KafkaPlace(cluster.bootstrap, cluster=cluster)
        await place.make()
        await place.put(*messages(5))
        async with working(bank, place):
            await until(lambda: len(bank.deducted) == 5)
            cluster.down()
            cluster.up()
            await place.put(("m-5", b'{"amount": 5}'))
            await until(lambda: len(bank.deducted) == 6)

    assert len(set(bank.deducted)) == 6


async def test_consumer_that_stops_finishes_what_it_has_in_hand(bank: Bank, stream: Place) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def waits(connection: Any, message: Incoming) -> None:
        begun.set()
        await go_on.wait()
        await deduct(connection, message)

    await stream.put(*messages(1))
    async with working(bank, stream, waits) as work:
        await begun.wait()
        work.runner.stop()
        go_on.set()

    assert bank.deducted == ["m-0"]


async def test_consumer_ends_by_itself_when_nothing_is_left(bank: Bank, stream: Place) -> None:
    await stream.put(*messages(3))

    async with working(bank, stream, until_idle=True) as work:
        await until(lambda: work.runner._stop.is_set())

    assert len(bank.deducted) == 3
