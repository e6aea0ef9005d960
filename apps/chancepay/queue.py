"""The queue that orders go through on RabbitMQ: python -m apps.chancepay queue."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence

import aio_pika
from aio_pika.exceptions import AMQPError

QUEUE = "payments"


async def make_queue(url: str) -> None:
    """Make the queue, which outlives the broker's restarts, unless it is there.

    A classic one: from a quorum queue RabbitMQ 4 drops what has come back 20 times from killed listeners.
    """
    async with await aio_pika.connect(url, timeout=5) as connection:
        channel = await connection.channel()
        await channel.declare_queue(QUEUE, durable=True, timeout=5)


def main(arguments: Sequence[str]) -> int:
    """0 when the queue is there."""
    parser = argparse.ArgumentParser(prog="python -m apps.chancepay queue", description=__doc__)
    parser.add_argument("--broker", default=os.environ.get("CHANCEPAY_AMQP", "amqp://127.0.0.1:5672"), metavar="URL")
    args = parser.parse_args(arguments)
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # it is said below
    try:
        asyncio.run(make_queue(args.broker))
    except (AMQPError, OSError, TimeoutError) as error:
        print(f"queue: the broker does not answer, or refuses ({type(error).__name__})", file=sys.stderr)
        return 1
    return 0
