"""Relay to each broker, confirmed messages per second, beside the slower of its client alone and the drain to null:."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import aio_pika
import nats
import psycopg

from benchmarks import bare
from benchmarks.measures import Figures, fresh
from sendonce import Draft, Outbox
from tests.servers.kafka import Kafka
from tests.servers.nats import Nats
from tests.servers.postgres import Server
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.redis import Redis

CONCURRENCY = 400
TEXT = "x" * 490
_RATE = "select count(*) / extract(epoch from max(finished_at) - min(finished_at)) from sendonce_attempts"


@dataclass(frozen=True, slots=True)
class Broker:
    """`place` is where the bare client writes; what the engine writes goes to `address`, which may be the same."""

    url: str
    settings: str
    place: str
    address: str


def brokers(server: Server, count: int) -> Figures:
    """All four, and null: as the floor of the engine itself."""
    drain = _relayed(server, "null:", "", count)
    found: Figures = {"brokers: null: per second": drain}
    for kind, started in (("nats", _nats), ("amqp", _amqp), ("kafka", _kafka), ("redis", _redis)):
        with started() as broker:
            alone = count / bare.seconds(kind, broker.url, broker.place, count)
            ours = _relayed(server, broker.address, broker.settings, count)
        found |= {
            f"brokers: {kind} client alone per second": alone,
            f"brokers: {kind} ours per second": ours,
            f"brokers: {kind}: ours / slower of client and null:": ours / min(alone, drain),
        }
    return found


def _relayed(server: Server, to: str, settings: str, count: int) -> float:
    dsn = fresh(server)
    outbox = Outbox()
    with psycopg.connect(dsn) as connection:
        for first in range(0, count, 1000):
            outbox.publish_many(
                connection,
                [Draft("order.placed", {"text": TEXT}, key=f"b{n}", to=to) for n in range(first, first + 1000)],
            )
            connection.commit()
        connection.autocommit = True
        connection.execute("analyze")
    with TemporaryDirectory() as folder:
        (Path(folder) / "sendonce.toml").write_text(settings)
        subprocess.run(
            [sys.executable, "-m", "sendonce", "worker", "--until-idle", "--database", dsn,
             "--concurrency", str(CONCURRENCY)],
            cwd=folder, check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    with psycopg.connect(dsn) as connection:
        row = connection.execute(_RATE.encode()).fetchone()
        done = connection.execute(b"select count(*) from sendonce_deliveries where status = 'Completed'").fetchone()
    assert row is not None
    assert done == (count,)
    return float(row[0])


@contextmanager
def _nats() -> Iterator[Broker]:
    async def prepared(url: str) -> None:
        client = await nats.connect(url)
        await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        await client.close()

    with Nats() as server:
        asyncio.run(prepared(server.url))
        yield Broker(server.url, f'[nats.main]\nurl = "{server.url}"\n', "orders.bare", "nats:main/orders.placed")


@contextmanager
def _amqp() -> Iterator[Broker]:
    async def prepared(url: str) -> None:
        connection = await aio_pika.connect(url)
        async with connection:
            channel = await connection.channel()
            await channel.declare_queue("orders", durable=True, arguments={"x-queue-type": "quorum"})

    with RabbitMQ() as server:
        asyncio.run(prepared(server.url))
        yield Broker(server.url, f'[amqp.main]\nurl = "{server.url}"\n', "orders", "amqp:main//orders")


@contextmanager
def _kafka() -> Iterator[Broker]:
    with Kafka() as cluster:
        cluster.topic("orders")
        servers = ", ".join(f'"{each}"' for each in cluster.bootstrap.split(","))
        yield Broker(cluster.bootstrap, f"[kafka.main]\nservers = [{servers}]\n", "orders", "kafka:main/orders")


@contextmanager
def _redis() -> Iterator[Broker]:
    with Redis() as server:
        yield Broker(server.url, f'[redis.main]\nurl = "{server.url}"\n', "bare", "redis:main/orders")
