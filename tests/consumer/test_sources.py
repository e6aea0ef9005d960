"""What every source does, on real brokers: what was not acknowledged comes again, and what was does not."""

import asyncio
from collections.abc import Sequence

import pytest

from sendonce.consumer.incoming import Taken
from sendonce.consumer.sources.protocol import Source, SourceLost
from tests.consumer.brokers import AmqpPlace, NatsPlace, Place, opened
from tests.processes import SECONDS


async def take(source: Source, count: int, most: int = 64) -> list[Taken]:
    """Take until there are so many."""
    found: list[Taken] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            found += await source.take(most, 0.5)
    return found


def bodies(taken: Sequence[Taken]) -> list[bytes]:
    return [each.body for each in taken]


async def test_source_gives_a_message_as_it_was_put(place: Place) -> None:
    await place.put(("m-1", b'{"amount": 5}'))

    async with opened(place.source()) as source:
        [message] = await take(source, 1)

    assert (message.id, message.body) == ("m-1", b'{"amount": 5}')
    assert message.headers["x-tenant"] == "acme"
    assert place.name in message.position


async def test_source_gives_a_message_without_an_id(place: Place) -> None:
    await place.put((None, b"nameless"))

    async with opened(place.source()) as source:
        [message] = await take(source, 1)

    assert message.id is None


async def test_source_gives_no_more_than_is_wanted(place: Place) -> None:
    await place.put(*[(f"m-{number}", b"%d" % number) for number in range(10)])

    async with opened(place.source()) as source:
        first = await source.take(3, SECONDS)
        rest = await take(source, 10 - len(first))

    assert 1 <= len(first) <= 3
    assert sorted(bodies([*first, *rest])) == [b"%d" % number for number in range(10)]


async def test_source_does_not_give_again_what_was_acknowledged(place: Place) -> None:
    await place.put(("m-1", b"one"), ("m-2", b"two"))
    async with opened(place.source()) as source:
        for each in await take(source, 2):
            await source.acknowledge(each)

    await place.put(("m-3", b"three"))
    async with opened(place.source()) as source:
        again = await take(source, 1)

    assert bodies(again) == [b"three"]


async def test_source_of_another_consumer_gives_all_of_them(place: Place) -> None:
    if isinstance(place, AmqpPlace):
        return  # a queue has one reader; others have queues of their own
    await place.put(("m-1", b"one"))
    async with opened(place.source("wallet")) as source:
        [message] = await take(source, 1)
        await source.acknowledge(message)

    async with opened(place.source("ledger")) as source:
        others = await take(source, 1)

    assert bodies(others) == [b"one"]


async def test_source_returns_nothing_when_nothing_comes(place: Place) -> None:
    async with opened(place.source()) as source:
        assert await source.take(5, 0.05) == []


async def test_source_that_is_not_open_is_lost(place: Place) -> None:
    source = place.source()

    with pytest.raises(SourceLost):
        await source.acknowledge(Taken(id="m-1", body=b"", headers={}, position="p", mark="1-1"))


async def test_nats_source_waits_for_a_stream_that_is_not_there(nats_url: str) -> None:
    place = NatsPlace(nats_url)

    with pytest.raises(SourceLost, match=f"NATS has no stream {place.name}"):
        await place.source().open()
