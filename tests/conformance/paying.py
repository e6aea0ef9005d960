"""ChancePay on a broker of its own, with a listener at work: for document P."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aio_pika
import nats

from apps.chancepay.contract import Order
from apps.chancepay.demo.parts import with_stream
from apps.chancepay.queue import QUEUE, make_queue
from apps.chancepay.stream import STREAM
from tests.apps.chancepay.services import ChancePay, chancepay
from tests.processes import ROOT, SECONDS
from tests.servers.nats import Nats
from tests.servers.postgres import Server
from tests.servers.rabbitmq import RabbitMQ

LISTENER = """
[consumers.wallet]
policy = { max_attempts = 5, first_delay = "50ms", longest_delay = "1s", jitter = 0 }
"""


class Paying:
    """Both services and their broker, which a test may kill and start again."""

    def __init__(self, services: ChancePay, broker: Nats | RabbitMQ) -> None:
        self.services, self.broker = services, broker

    def put(self, order: Order, copies: int) -> None:
        """Put an order there, past the broker's own memory."""
        asyncio.run(self._put(order.model_dump_json().encode(), copies))

    async def _put(self, body: bytes, copies: int) -> None:
        if isinstance(self.broker, Nats):
            client = await nats.connect(self.broker.url)
            for _ in range(copies):
                await client.jetstream().publish(STREAM, body)
            await client.close()
            return
        async with await aio_pika.connect(self.broker.url) as connection:
            channel = await connection.channel()
            for _ in range(copies):
                await channel.default_exchange.publish(aio_pika.Message(body), QUEUE)

    def reconcile(self, *options: str) -> "subprocess.CompletedProcess[str]":
        """The command."""
        requests, wallet = self.services.requests, self.services.wallet
        assert requests.service is not None
        assert wallet.service is not None
        return subprocess.run(
            [
                sys.executable, "-m", "apps.chancepay", "reconcile", "--requests", requests.service.url,
                "--wallet", wallet.service.url, *options,
            ],
            cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False,
            env={"PYTHONPATH": str(ROOT), "CHANCEPAY_REQUESTS_KEY": requests.keys["internal"],
                 "CHANCEPAY_WALLET_KEY": wallet.keys["internal"]},
        )  # fmt: skip


@contextmanager
def paying(server: Server | None, folder: Path, *, broker: str, mode: str) -> Iterator[Paying]:
    """Both services at work, with one listener."""
    with Nats() if broker == "nats" else RabbitMQ() as there:
        orders = ["nats:main/payments"] * 2 if broker == "nats" else ["amqp:main//payments", "amqp:main/payments"]
        asyncio.run(_prepare(there))
        table = f'[{orders[0].partition(":")[0]}.main]\nurl = "{there.url}"\n{LISTENER}'
        with chancepay(server, folder, mode=mode, broker=table) as services:
            services.start("--broker", orders[0])
            services.listen("--broker", orders[1])
            yield Paying(services, there)


async def _prepare(broker: Nats | RabbitMQ) -> None:
    if isinstance(broker, Nats):
        await (await with_stream(broker.url)).close()
    else:
        await make_queue(broker.url)
