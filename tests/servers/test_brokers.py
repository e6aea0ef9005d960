"""The brokers that tests start for themselves do what brokers do, and are gone afterwards."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import aio_pika
import nats
import pytest
import redis.asyncio
from confluent_kafka import Consumer, Producer
from nats.js.errors import APIError

from tests.processes import ROOT, SECONDS, until
from tests.servers.daemons import PIDS, Daemon, clear
from tests.servers.kafka import Kafka
from tests.servers.nats import Nats, NatsCluster
from tests.servers.os_users import FOLDER, new_folder
from tests.servers.redis import Redis

_MAKE_AND_DIE = """
import os
from tests.servers.nats import Nats
from tests.servers.redis import Redis
print(Nats().start().pid, Redis().start().pid)
os._exit(1)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_nats_server_keeps_what_a_stream_took_through_a_crash() -> None:
    with Nats() as server:
        client = await nats.connect(server.url, allow_reconnect=False)
        await client.jetstream().add_stream(name="S", subjects=["s.>"])
        await client.jetstream().publish("s.one", b"kept", headers={"Nats-Msg-Id": "1"})
        await client.close()

        server.kill()
        server.start()

        client = await nats.connect(server.url)
        [first] = [await client.jetstream().get_msg("S", 1)]
        await client.close()
    assert first.data == b"kept"


@pytest.mark.more
async def test_nats_cluster_elects_a_leader_for_a_stream_of_three() -> None:
    with NatsCluster() as cluster:
        client = await nats.connect(cluster.urls)
        made = None
        async with asyncio.timeout(SECONDS):
            while made is None:
                try:
                    made = await client.jetstream().add_stream(name="S", subjects=["s.>"], num_replicas=3)
                except (APIError, nats.errors.TimeoutError, nats.errors.NoRespondersError):
                    await asyncio.sleep(0.1)
        assert made.cluster is not None
        assert cluster.node(str(made.cluster.leader)).pid
        await client.close()


async def test_redis_server_keeps_a_stream() -> None:
    with Redis() as server:
        client = redis.asyncio.Redis.from_url(server.url)
        await client.xadd("s", {"body": "kept"})

        found = await client.xrange("s")
        await client.aclose()

    assert [fields for _, fields in found or ()] == [{b"body": b"kept"}]


async def test_rabbitmq_server_confirms_into_a_quorum_queue(rabbitmq_url: str) -> None:
    connection = await aio_pika.connect(rabbitmq_url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(
            "servers-quorum", durable=True, arguments={"x-queue-type": "quorum", "x-expires": 600_000}
        )
        await channel.default_exchange.publish(aio_pika.Message(b"kept"), routing_key=queue.name)

        found = await queue.get()
        await found.ack()

    assert found.body == b"kept"


def test_kafka_cluster_is_reached_over_tcp_and_fails_as_told() -> None:
    with Kafka() as cluster:
        topic = cluster.topic("t")
        cluster.fail(10)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        answers: list[str | None] = []
        for body in (b"too big, it is told", b"kept"):
            producer.produce(topic, body, on_delivery=lambda error, _: answers.append(error.name() if error else None))
            producer.flush(SECONDS)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        found = consumer.poll(SECONDS)
        consumer.close()

    assert answers == ["MSG_SIZE_TOO_LARGE", None]
    assert found is not None
    assert found.value() == b"kept"


@pytest.mark.parametrize("make", [Nats, Redis])
def test_server_that_stops_leaves_nothing(make: type[Daemon]) -> None:
    with make() as server:
        pid, folder = server.pid, server.folder

    assert not is_alive(pid)
    assert not folder.exists()


def test_servers_of_a_killed_run_are_ended_by_its_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = new_folder("sendonce-")
    monkeypatch.setenv(FOLDER, str(folder))
    said = subprocess.run(
        [sys.executable, "-c", _MAKE_AND_DIE],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    pids = [int(each) for each in said.stdout.split()]
    assert len(pids) == 2, said.stderr
    assert all(map(is_alive, pids))
    assert len(list(folder.glob(f"*/{PIDS}"))) == 2

    clear(folder)

    until(lambda: not any(map(is_alive, pids)), "the servers have ended")
    shutil.rmtree(folder)
