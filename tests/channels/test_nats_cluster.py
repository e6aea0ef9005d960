"""Three JetStream servers on loopback, and the leader killed while thousands are published: each is stored once."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import nats
import pytest
from nats.js.errors import APIError

from sendonce.channels.brokers.nats import NatsChannel, NatsProfile
from sendonce.domain.outcomes import Delivered, Failed, Unknown
from tests.channels.sending import message_to
from tests.processes import SECONDS
from tests.servers.nats import NatsCluster

COUNT = 20_000
AT_ONCE = 200


async def leader_of_a_new_stream(urls: list[str]) -> str:
    """Make a stream of three replicas, when the servers have found a leader among them."""
    client = await nats.connect(urls)
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    made = await client.jetstream().add_stream(name="S", subjects=["s.>"], num_replicas=3)
                except (APIError, nats.errors.TimeoutError, nats.errors.NoRespondersError):
                    await asyncio.sleep(0.1)
                else:
                    assert made.cluster is not None
                    return str(made.cluster.leader)
    finally:
        await client.close()


async def count_of(urls: list[str]) -> int:
    client = await nats.connect(urls)
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    return (await client.jetstream().stream_info("S")).state.messages
                except (APIError, nats.errors.TimeoutError, nats.errors.NoRespondersError):
                    await asyncio.sleep(0.1)
    finally:
        await client.close()


@pytest.mark.more
async def test_leader_killed_while_20000_are_published_costs_none_and_doubles_none() -> None:
    with NatsCluster() as cluster:
        leader = await leader_of_a_new_stream(cluster.urls)
        channel = NatsChannel(NatsProfile(name="main", url=",".join(cluster.urls)))
        numbers = iter(range(COUNT))
        met: Counter[type] = Counter()
        sequences: set[str] = set()

        async def publish() -> None:
            """As the engine does: what failed or is in doubt is sent again with the same token."""
            for number in numbers:
                if number == COUNT // 4:
                    cluster.node(leader).kill()
                message = message_to("nats:main/s.placed", key=str(number), recorded_at=datetime.now(UTC))
                while not isinstance(outcome := await channel.send(message, timeout=5), Delivered):
                    met[type(outcome)] += 1
                    assert isinstance(outcome, Failed | Unknown), outcome
                    await asyncio.sleep(0.05)
                sequences.add(str(outcome.notification_id))

        async with asyncio.timeout(SECONDS * 2):
            await asyncio.gather(*[publish() for _ in range(AT_ONCE)])
        await channel.close()
        stored = await count_of([each.url for each in cluster.nodes if each.node != leader])

    assert met[Unknown] + met[Failed] > 0, "the leader's end was noticed"
    assert len(sequences) == COUNT
    assert stored == COUNT
