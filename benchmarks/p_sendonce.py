"""The adapter for the peers' harness: setup, enqueue single|batch N B, paced FILE COUNT INTERVAL, worker FILE [FILE].

The harness puts its `common` module on the path (DSN, payload, Progress, paced, out). What runs here is the shipped
engine with its defaults, but for a channel that counts instead of sending.
"""

import asyncio
import contextlib
import json
import os
from datetime import timedelta

import psycopg
from common import DSN, Progress, argv, now, out, paced, payload  # type: ignore[import-not-found]

from sendonce import Draft, Outbox, __version__
from sendonce.channels import Channels, Delivered, Message, Outcome
from sendonce.compose import migrate, open_notifier, open_store
from sendonce.engine.config import WorkerConfig
from sendonce.engine.daemon import Parts, run

SLOTS = int(os.environ.get("P_SLOTS", "500"))
NOTIFY = os.environ.get("P_NOTIFY", "1") == "1"
DELIVERED = Delivered()


def enqueue(mode: str, count: int, batch: int) -> None:
    outbox = Outbox()
    with psycopg.connect(DSN) as connection:
        begun = now()
        if mode == "single":
            for number in range(count):
                outbox.publish(connection, "noop", payload(number), key=str(number), to="null:")
                connection.commit()
        else:
            for first in range(0, count, batch):
                numbers = range(first, min(count, first + batch))
                outbox.publish_many(
                    connection, [Draft("noop", payload(each), key=f"b{each}", to="null:") for each in numbers]
                )
                connection.commit()
        out(count, now() - begun)


async def enqueue_paced(path: str, count: int, interval: float) -> None:
    outbox = Outbox(notify=NOTIFY)
    connection = await psycopg.AsyncConnection.connect(DSN)

    async def one(number: int) -> None:
        await outbox.apublish(connection, "noop", payload(number), key=f"p{number}", to="null:")
        await connection.commit()

    await paced(path, count, interval, one)
    await connection.close()


async def work(progress: Progress) -> None:
    channels = Channels()
    takes_latency = progress.lat is not None

    @channels.channel("null")
    async def count(message: Message, *, timeout: float) -> Outcome:
        progress.hit(json.loads(message.body)["seq"] if takes_latency else -1)
        return DELIVERED

    await run(
        Parts(
            open_store=lambda: open_store(DSN),
            channels=channels,
            config=WorkerConfig(concurrency=SLOTS, poll=timedelta(seconds=1), grace=timedelta(seconds=5)),
            emit=lambda fact: None,
            version=__version__,
            notifier=open_notifier(DSN) if NOTIFY else None,
        )
    )
    progress.flush()


def main() -> None:
    command, rest = argv()
    if command == "setup":
        migrate(DSN)
    elif command == "enqueue":
        enqueue(rest[0], int(rest[1]), int(rest[2]))
    elif command == "paced":
        asyncio.run(enqueue_paced(rest[0], int(rest[1]), float(rest[2])))
    elif command == "worker":
        with contextlib.suppress(ImportError):
            import uvloop

            asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
        asyncio.run(work(Progress(rest[0], rest[1] if len(rest) > 1 else None)))


main()
