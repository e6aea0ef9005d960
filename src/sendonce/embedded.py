"""A worker inside the application's own process and event loop, for small installations and for trying things out."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from sendonce import __version__
from sendonce.channels.registry import Channels
from sendonce.compose import check_url, open_doorbell, open_store
from sendonce.engine import daemon
from sendonce.engine.daemon import Parts
from sendonce.observe import logs
from sendonce.observe.facts import Begun, Fact
from sendonce.settings.channels import channels_of
from sendonce.settings.load import find, load
from sendonce.settings.model import Settings
from sendonce.stores.ports import Doorbell


@asynccontextmanager
async def embedded_worker(
    url: str, *, config: Path | str | None = None, channels: Channels | None = None
) -> AsyncIterator[None]:
    """Send what is due while the block runs; at its end finish what is in flight, for as long as the grace says.

    `config` is the settings file, as for `sendonce worker`; `channels` are your own, over those of the file. What is
    wrong is raised before the block begins; a worker that fails later is raised at its end.
    """
    settings = load(find(None if config is None else str(config), os.environ), os.environ)
    settings = replace(settings, database=check_url(url))
    begun, stop = asyncio.Event(), asyncio.Event()

    def emit(fact: Fact) -> None:
        logs.write(fact)
        if isinstance(fact, Begun):
            begun.set()

    parts = replace(parts_of(settings, channels_of(settings, channels)), emit=emit)
    working = asyncio.create_task(daemon.run(parts, stop=stop))
    beginning = asyncio.create_task(begun.wait())
    try:
        await asyncio.wait({working, beginning}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working
        yield
    finally:
        beginning.cancel()
        stop.set()
        await working


def parts_of(settings: Settings, channels: Channels) -> Parts:
    """What a worker is built from, as the settings say."""
    return Parts(
        open_store=lambda: open_store(settings.database),
        channels=channels,
        config=settings.worker,
        emit=logs.write,
        version=__version__,
        policy=settings.policy,
        doorbell=doorbell_of(settings),
        sealer=settings.sealer,
        alerts=settings.alerts,
        retention=settings.retention,
        listen=settings.listen,
    )


def doorbell_of(settings: Settings) -> Doorbell | None:
    """What waits for publishers' announcements, where that is wanted."""
    return open_doorbell(settings.listen_database or settings.database) if settings.notify else None
