"""The shipped engine, with a channel that counts instead of sending."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta

import psycopg

from benchmarks.floors import payload_of
from sendonce import Draft, Outbox, __version__
from sendonce.channels import Channels, Delivered, Message, Outcome
from sendonce.compose import open_notifier, open_store
from sendonce.engine.config import WorkerConfig
from sendonce.engine.daemon import Parts, run

DELIVERED = Delivered()


def fill(dsn: str, count: int) -> None:
    """Publish a backlog in batches of 1000, each committed."""
    outbox = Outbox()
    with psycopg.connect(dsn) as connection:
        for first in range(0, count, 1000):
            numbers = range(first, min(first + 1000, count))
            outbox.publish_many(
                connection, [Draft("noop", payload_of(each), key=f"b{each}", to="null:") for each in numbers]
            )
            connection.commit()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("analyze")


def parts(url: str, channels: Channels, *, slots: int, until_idle: bool, notify: bool) -> Parts:
    return Parts(
        open_store=lambda: open_store(url),
        channels=channels,
        config=WorkerConfig(concurrency=slots, until_idle=until_idle, poll=timedelta(seconds=1)),
        emit=lambda fact: None,
        version=__version__,
        notifier=open_notifier(url) if notify else None,
    )


async def drain(url: str, go: Callable[[], None], *, slots: int = 500) -> None:
    """Work until idle with a channel that does nothing; the clock starts when the first claim has come in."""
    channels = Channels()

    @channels.channel("null")
    async def count(message: Message, *, timeout: float) -> Outcome:
        go()
        return DELIVERED

    await run(parts(url, channels, slots=slots, until_idle=True, notify=False))


async def listen(
    url: str, seen: Callable[[int], None], go: Callable[[], None], stop: asyncio.Event, *, notify: bool
) -> None:
    """Work until told to stop, noting what arrives when."""
    channels = Channels()

    @channels.channel("null")
    async def note(message: Message, *, timeout: float) -> Outcome:
        seen(json.loads(message.body)["seq"])
        return DELIVERED

    work = asyncio.create_task(run(parts(url, channels, slots=100, until_idle=False, notify=notify)))
    go()
    await stop.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
