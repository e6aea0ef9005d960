"""A queue of RabbitMQ as a source: it may not be there yet, and it never gets a message back from us."""

import asyncio
from collections import Counter
from typing import Any

import aio_pika
import pytest

from sendonce.consumer.incoming import Incoming
from sendonce.consumer.sources.protocol import SourceLost
from sendonce.domain.policies import DEFAULT_POLICY, override
from sendonce.observability.facts import SourceBack, SourceGone
from tests.consumer.brokers import AmqpPlace
from tests.consumer.working import Bank, deduct, until, working

FAILURES = 22


@pytest.fixture
def place(rabbitmq_url: str) -> AmqpPlace:
    return AmqpPlace(rabbitmq_url)


async def test_queue_that_is_not_there_is_waited_for(pg_dsn: str, place: AmqpPlace) -> None:
    bank = Bank(pg_dsn)
    await bank.make()
    with pytest.raises(SourceLost, match=f"RabbitMQ has no queue {place.name}"):
        await place.source().open()

    async with working(bank, place) as work:
        await until(lambda: len(work.of(SourceGone)) == 1)
        await place.make()
        await place.put(("m-1", b'{"amount": 5}'))
        await until(lambda: bank.deducted == ["m-1"])

    assert work.of(SourceGone)[0].reason == f"RabbitMQ has no queue {place.name}"
    assert len(work.of(SourceBack)) == 1


async def test_queue_that_is_deleted_is_waited_for(pg_dsn: str, place: AmqpPlace) -> None:
    """The broker ends the subscription, and nothing else: the connection goes on."""
    bank = Bank(pg_dsn)
    await bank.make()
    await place.make()
    await place.put(("m-1", b'{"amount": 5}'))
    async with working(bank, place) as work:
        await until(lambda: bank.deducted == ["m-1"])
        async with await aio_pika.connect(place.address) as connection:
            await (await connection.channel()).queue_delete(place.name)
        await until(lambda: len(work.of(SourceGone)) == 1)
        await place.make()
        await place.put(("m-2", b'{"amount": 5}'))
        await until(lambda: bank.deducted == ["m-1", "m-2"])


async def test_message_of_a_foreign_client_without_an_id_is_a_dead_letter(pg_dsn: str, place: AmqpPlace) -> None:
    bank = Bank(pg_dsn)
    await bank.make()
    await place.make()
    await place.put((None, b'{"amount": 5}'), ("m-2", b'{"amount": 5}'))

    async with working(bank, place):
        await until(lambda: bank.deducted == ["m-2"] and len(bank.rows("id")) == 1)

    assert bank.rows("status, reason, error_message") == [("DeadLettered", "malformed", "it has no id")]


@pytest.mark.slow
async def test_message_that_fails_more_often_than_a_quorum_queue_would_give_it_is_not_dropped(
    pg_dsn: str, place: AmqpPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RabbitMQ 4 drops what was given back twenty times; here twice is enough, and nothing is ever given back."""
    monkeypatch.setattr("sendonce.consumer.runner.LOOK_SECONDS", 0.01)
    bank = Bank(pg_dsn)
    await bank.make()
    place.arguments = {"x-queue-type": "quorum", "x-delivery-limit": 2}
    await place.make()
    tries: Counter[str] = Counter()

    async def fails_often(connection: Any, message: Incoming) -> None:
        tries[message.id] += 1
        await deduct(connection, message)
        if tries[message.id] <= FAILURES:
            raise RuntimeError

    policy = override(DEFAULT_POLICY, {"first_delay": "1ms", "longest_delay": "1ms", "max_attempts": FAILURES + 5})
    await place.put(("m-1", b'{"amount": 5}'))
    async with working(bank, place, fails_often, policy=policy):
        await until(lambda: bank.deducted == ["m-1"])
        await until(lambda: bank.rows("status") == [("Completed",)])

    assert bank.rows("begun, finished") == [(FAILURES + 1, FAILURES + 1)]
    async with await aio_pika.connect(place.address) as connection:
        queue = await (await connection.channel()).declare_queue(place.name, passive=True)
        assert queue.declaration_result.message_count == 0


async def test_connection_that_ends_gives_everything_to_the_next(place: AmqpPlace) -> None:
    await place.make()
    await place.put(*[(f"m-{number}", b"%d" % number) for number in range(5)])
    first = place.source()
    await first.open()
    taken = list(await first.take(1, 60))
    await first.close()

    with pytest.raises(SourceLost):
        await first.acknowledge(taken[0])
    second = place.source()
    await second.open()
    found: list[Any] = []
    async with asyncio.timeout(200):
        while len(found) < 5:
            found += await second.take(64, 0.5)
    await second.close()

    assert {each.id for each in found if each.is_again} >= {taken[0].id}
