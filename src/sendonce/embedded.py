"""A worker inside the application's own process and event loop, for small installations and for trying things out."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from sendonce import __version__
from sendonce.admin import audit
from sendonce.admin.session import on_own_thread
from sendonce.channels.registry import Channels
from sendonce.compose import check_url, open_notifier, open_store
from sendonce.config.channels import channels_of
from sendonce.config.load import Settings, find, load
from sendonce.engine import daemon
from sendonce.engine.daemon import Parts
from sendonce.engine.orchestrator import Policies
from sendonce.engine.subscriptions import CredentialsCache
from sendonce.errors import SendonceError
from sendonce.observability import logs
from sendonce.observability.facts import Begun, Emit, Fact, WorkerFailed
from sendonce.store.ports import Notifier, Store

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0


@contextmanager
def embedded_worker(url: str, *, config: Path | str | None = None, channels: Channels | None = None) -> Iterator[None]:
    """`aembedded_worker` for programs without an event loop: the worker has one on a thread of its own."""
    with on_own_thread(aembedded_worker(url, config=config, channels=channels)):
        yield


@asynccontextmanager
async def aembedded_worker(
    url: str, *, config: Path | str | None = None, channels: Channels | None = None
) -> AsyncIterator[None]:
    """Send what is due while the block runs; at its end finish what is in flight, for as long as the grace says.

    `config` is the settings file, as for `sendonce worker`; `channels` are your own, over those of the file. What is
    wrong is raised before the block begins. A worker that fails later is an error in the log, and another one begins.
    """
    settings = load(find(None if config is None else str(config), os.environ), os.environ)
    settings = replace(settings, database=check_url(url))
    stop, begun = asyncio.Event(), asyncio.Event()
    # Built anew each time: a worker closes what it sends through.
    working = asyncio.create_task(
        _work(
            lambda: parts_of(settings, channels_of(settings, channels)), logs.writer(settings.log.format), stop, begun
        )
    )
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


async def _work(build: Callable[[], Parts], write: Emit, stop: asyncio.Event, begun: asyncio.Event) -> None:
    pause = FIRST_PAUSE

    def emit(fact: Fact) -> None:
        write(fact)
        if isinstance(fact, Begun):
            begun.set()

    while not stop.is_set():
        try:
            await daemon.run(replace(build(), emit=emit), stop=stop)
        except Exception as error:
            if not begun.is_set() or stop.is_set():
                raise
            reason = str(error) if isinstance(error, SendonceError) else type(error).__name__
            emit(WorkerFailed(reason=reason, again_in=pause))
            await _wait(stop, pause)
            pause = min(pause * 2, LONGEST_PAUSE)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def parts_of(settings: Settings, channels: Channels) -> Parts:
    """What a worker is built from, as the settings say."""
    return Parts(
        open_store=lambda: open_store(settings.database, writes=True),
        channels=channels,
        config=settings.worker,
        emit=logs.writer(settings.log.format),
        version=__version__,
        policy=settings.policy,
        notifier=notifier_of(settings),
        sealer=settings.sealer,
        alerts=settings.alerts,
        retention=settings.retention,
        metrics=settings.metrics,
        tracebacks=settings.log.tracebacks,
        audit=settings.audit,
        auditing=partial(_walk, channels),
    )


def _walk(
    channels: Channels, store: Store, policies: Policies, namespace: str, keyring: CredentialsCache
) -> Callable[[datetime], AsyncIterator[audit.AuditReport]]:
    """What checks what is marked sent, with what a worker has."""
    means = audit.Means(channels=channels, namespace=namespace, policy_at=policies.at, credentials_of=keyring.of)
    return lambda since: audit.audit(store, means, since=since)


def notifier_of(settings: Settings) -> Notifier | None:
    """What waits for publishers' announcements, where that is wanted."""
    return open_notifier(settings.listen_database or settings.database) if settings.notify else None
