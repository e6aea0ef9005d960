"""The parts of the demonstration: programs of its own, each ended by its process, and a broker with its stream."""

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from apps.chancepay.stream import STREAM, make_stream
from apps.chancepay.wallet.listener import CONSUMER

SECONDS = 60.0
ROOT = Path(__file__).parents[3]


class Program:
    """A process that writes what it says to a file."""

    def __init__(self, name: str, *command: str, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(  # noqa: S603, these are our own
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            )  # fmt: skip

    async def says(self, pattern: str) -> "re.Match[str]":
        """What it says that matches; RuntimeError when it ends before that."""
        async with asyncio.timeout(SECONDS):
            while True:
                if found := re.search(pattern, self.log.read_text(errors="replace")):
                    return found
                if self._popen.poll() is not None:
                    raise RuntimeError(f"it has ended: {self.log.read_text(errors='replace')[-500:]}")
                await asyncio.sleep(0.05)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._popen.kill()
        self._popen.wait()

    def stop(self) -> None:
        """Have it finish what it has begun, and end."""
        if self._popen.poll() is None:
            self._popen.terminate()
            try:
                self._popen.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()


def broker(folder: Path) -> tuple[Program, str]:
    """Start a NATS server with JetStream on a free port; where it is."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    program = Path(sys.prefix) / "bin" / "nats-server"
    command = [str(program), "-a", "127.0.0.1", "-p", port, "-js", "-sd", str(folder / "broker")]
    return Program("broker", *command, folder=folder), f"nats://127.0.0.1:{port}"


async def with_stream(url: str) -> Client:
    """Connect, make the stream, and its consumer: what a killed listener had in hand comes again after seconds."""
    client = await nats.connect(url)
    await make_stream(client)
    listening = ConsumerConfig(
        durable_name=CONSUMER, ack_policy=AckPolicy.EXPLICIT, ack_wait=3, max_deliver=-1, max_ack_pending=-1
    )
    await client.jsm().add_consumer(STREAM, listening)
    return client


async def double(client: Client, every: int, stop: asyncio.Event) -> int:
    """Put every so many-th order into the stream once more, past the broker's own memory; how many there were."""
    subscription = await client.jetstream().subscribe(STREAM, ordered_consumer=True)
    seen = doubled = 0
    while not stop.is_set():
        with suppress(asyncio.TimeoutError, TimeoutError):
            message = await subscription.next_msg(timeout=0.5)
            if (message.headers or {}).get("Doubled"):
                continue
            seen += 1
            if seen % every == 0:
                headers = {name: value for name, value in (message.headers or {}).items() if name != "Nats-Msg-Id"}
                await client.jetstream().publish(STREAM, message.data, headers={**headers, "Doubled": "yes"})
                doubled += 1
    return doubled
