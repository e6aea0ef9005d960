"""What is committed of a Kafka partition: the lowest that is not done with, and a mark above what was given."""

import asyncio

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from sendonce.consumer.incoming import Taken
from sendonce.consumer.sources.kafka import Offsets
from sendonce.consumer.sources.protocol import SourceLost
from tests.consumer.brokers import KafkaPlace, opened
from tests.consumer.test_sources import bodies, take
from tests.processes import SECONDS
from tests.servers.kafka import Kafka

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
COORDINATOR_LOADING, GROUP_AUTHORIZATION_FAILED = 14, 30


@given(st.permutations(range(5, 15)))
def test_offset_that_is_committed_is_the_lowest_that_is_not_done_with(order: list[int]) -> None:
    offsets = Offsets(5)
    for each in range(5, 15):
        offsets.take(each)

    for done in range(10):
        lowest = offsets.finish(order[done])

        assert lowest == min({*range(5, 15)} - {*order[: done + 1]}, default=15)


def test_offset_that_nobody_has_is_passed_over() -> None:
    """A transaction's marker has one, and compaction takes them away."""
    offsets = Offsets(3)
    for each in (3, 7, 8, 20):
        offsets.take(each)

    assert [offsets.finish(each) for each in (7, 3, 20, 8)] == [3, 8, 8, 21]


@pytest.fixture
def topic(kafka_cluster: Kafka) -> KafkaPlace:
    place = KafkaPlace(kafka_cluster.bootstrap, cluster=kafka_cluster)
    kafka_cluster.topic(place.name, 1)
    return place


def committed(place: KafkaPlace, partition: int = 0) -> tuple[int, str | None]:
    """The offset that a group begins at, and the mark beside it."""
    client = Consumer({"bootstrap.servers": place.address, "group.id": f"wallet-{place.name}"})
    [found] = client.committed([TopicPartition(place.name, partition)], SECONDS)
    client.close()
    return found.offset, found.metadata


def numbered(count: int) -> list[tuple[str | None, bytes]]:
    return [(f"m-{number}", b"%d" % number) for number in range(count)]


async def test_offset_committed_at_the_end_leaves_out_nothing_that_is_in_hand(topic: KafkaPlace) -> None:
    await topic.put(*numbered(6))
    async with opened(topic.source()) as source:
        taken = await take(source, 6)
        for index in (5, 0, 1, 3):
            await source.acknowledge(taken[index])

    assert committed(topic) == (2, "6")
    async with opened(topic.source()) as source:
        again = await take(source, 4)
    assert bodies(again) == [b"2", b"3", b"4", b"5"]


async def test_message_that_was_given_before_a_clean_end_is_given_again_and_said_so(topic: KafkaPlace) -> None:
    await topic.put(*numbered(3))
    async with opened(topic.source()) as source:
        first = await take(source, 3)
        await source.acknowledge(first[0])

    await topic.put(("m-3", b"3"))
    async with opened(topic.source()) as source:
        second = await take(source, 3)

    assert [each.is_again for each in first] == [False] * 3
    assert [(each.body, each.is_again) for each in second] == [(b"1", True), (b"2", True), (b"3", False)]


async def test_mark_is_ahead_of_what_is_given_before_it_is_given(topic: KafkaPlace) -> None:
    """So that after a crash nothing that was tried is taken for new, however far the slowest is behind."""
    await topic.put(*numbered(30))
    async with opened(topic.source(prefetch=4)) as source:
        given: list[Taken] = []
        async with asyncio.timeout(SECONDS):
            while len(given) < 30:
                new = await source.take(4, 0.5)
                given += new
                if new:
                    offset, mark = committed(topic)
                    assert offset == 0, "the first is not done with"
                    assert int(mark or 0) >= len(given)
                for each in new:
                    if each.body != b"0":
                        await source.acknowledge(each)


async def test_message_counts_as_given_before_where_the_mark_could_not_be_moved() -> None:
    with Kafka() as own:
        place = KafkaPlace(own.bootstrap, cluster=own)
        await place.make()
        await place.put(*numbered(2))
        async with opened(place.source()) as source:
            own.fail(*[COORDINATOR_LOADING] * 100, request=OFFSET_COMMIT)
            found = await take(source, 2)

    assert [each.is_again for each in found] == [True, True]


async def test_partition_that_goes_to_another_is_gone_with_what_is_in_hand(kafka_cluster: Kafka) -> None:
    """What the first has in hand is given to the second, whose it is now; the first's word no longer counts."""
    place = KafkaPlace(kafka_cluster.bootstrap, cluster=kafka_cluster)
    kafka_cluster.topic(place.name, 2)
    producer = Producer({"bootstrap.servers": place.address})
    for partition in (0, 1):
        for number in range(5):
            producer.produce(place.name, b"%d/%d" % (partition, number), partition=partition)
    assert producer.flush(SECONDS) == 0
    first, second = place.source(), place.source()
    async with opened(first):
        in_hand = await take(first, 10)
        async with opened(second):
            found: list[Taken] = []
            async with asyncio.timeout(SECONDS):
                while len(found) < 5:
                    await first.take(64, 0.1)
                    found += await second.take(64, 0.1)
            for each in in_hand:
                await first.acknowledge(each)
            await second.acknowledge(found[0])

    assert {each.is_again for each in found} == {True}
    moved = int(found[0].body.partition(b"/")[0])
    assert committed(place, moved) == (1, "5"), "only what the second has acknowledged counts"


async def test_source_that_cannot_ask_what_is_committed_is_lost() -> None:
    with Kafka() as own:
        place = KafkaPlace(own.bootstrap, cluster=own)
        await place.make()
        await place.put(*numbered(1))
        # The client itself asks first, for where to begin.
        own.fail(0, *[GROUP_AUTHORIZATION_FAILED] * 100, request=OFFSET_FETCH)

        async with opened(place.source()) as source:
            with pytest.raises(SourceLost, match="Kafka does not answer"):
                await take(source, 1)
