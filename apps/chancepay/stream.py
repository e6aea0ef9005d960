"""The stream that orders go through: python -m apps.chancepay stream."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

import nats
from nats.aio.client import Client
from nats.errors import Error
from nats.js.api import StreamConfig

STREAM = "payments"
# The broker recognises an order that comes again within this time. After that the wallet alone does, which is enough.
REMEMBERS_SECONDS = 3600


async def make_stream(client: Client) -> None:
    """Make the stream, which keeps every order, unless it is there."""
    stream = StreamConfig(name=STREAM, subjects=[STREAM], duplicate_window=REMEMBERS_SECONDS)
    await client.jetstream().add_stream(stream)


def main(arguments: Sequence[str]) -> int:
    """0 when the stream is there."""
    parser = argparse.ArgumentParser(prog="python -m apps.chancepay stream", description=__doc__)
    parser.add_argument("--broker", default=os.environ.get("CHANCEPAY_NATS", "nats://127.0.0.1:4222"), metavar="URL")
    args = parser.parse_args(arguments)
    try:
        asyncio.run(_make(args.broker))
    except (Error, OSError, TimeoutError) as error:
        print(f"stream: the broker does not answer, or refuses ({type(error).__name__})", file=sys.stderr)
        return 1
    return 0


async def _give_up(error: Exception) -> None:
    """The client would try again for two minutes."""
    raise error


async def _make(url: str) -> None:
    client = await nats.connect(url, allow_reconnect=False, connect_timeout=5, error_cb=_give_up)
    try:
        await make_stream(client)
    finally:
        await client.close()
