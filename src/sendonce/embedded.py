"""Workers and consumers inside the application's own process and event loop."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
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
from sendonce.config.consumers import consumers_of
from sendonce.config.load import Settings, find, load
from sendonce.consumer import daemon as consuming
from sendonce.consumer.registry import Consumers
from sendonce.engine import daemon
from sendonce.engine.daemon import Parts
from sendonce.engine.orchestrator import Policies
from sendonce.engine.subscriptions import CredentialsCache
from sendonce.errors import SendonceError
from sendonce.observability import logs
from sendonce.observability.facts import Begun, Consuming, Emit, Fact, WorkerFailed
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
    settings = _settings(url, config)
    stop = asyncio.Event()

    def run(emit: Emit) -> Awaitable[object]:
        # Built anew each time: a worker closes what it sends through.
        parts = parts_of(settings, channels_of(settings, channels))
        return daemon.run(replace(parts, emit=emit), stop=stop)

    async with _beside(run, "worker", logs.writer(settings.log.format), stop):
        yield


@contextmanager
def embedded_consumers(url: str, consumers: Consumers, *names: str, config: Path | str | None = None) -> Iterator[None]:
    """`aembedded_consumers` for programs without an event loop: they have one on a thread of its own."""
    with on_own_thread(aembedded_consumers(url, consumers, *names, config=config)):
        yield


@asynccontextmanager
async def aembedded_consumers(
    url: str, consumers: Consumers, *names: str, config: Path | str | None = None
) -> AsyncIterator[None]:
    """Consume while the block runs, as `aconsume` does; what fails later is an error in the log, and begins anew."""
    settings = _settings(url, config)
    stop = asyncio.Event()

    def run(emit: Emit) -> Awaitable[object]:
        return consuming.run(replace(consuming_of(settings, consumers, names), emit=emit), stop=stop)

    async with _beside(run, "consumer", logs.writer(settings.log.format), stop):
        yield


def consume(url: str, consumers: Consumers, *names: str, config: Path | str | None = None) -> None:
    """`aconsume` for programs without an event loop: it has one of its own."""
    asyncio.run(aconsume(url, consumers, *names, config=config))


async def aconsume(
    url: str,
    consumers: Consumers,
    *names: str,
    config: Path | str | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run these consumers, or all, until SIGTERM or SIGINT; with `stop`, until that is set.

    `url` is the database of their receipts; `config` is the settings file, as for `sendonce consume`, which says where
    brokers are. What is in hand at the end is finished, for as long as the grace says.
    """
    await consuming.run(consuming_of(_settings(url, config), consumers, names), stop=stop)


def _settings(url: str, config: Path | str | None) -> Settings:
    settings = load(find(None if config is None else str(config), os.environ), os.environ)
    return replace(settings, database=check_url(url))


@asynccontextmanager
async def _beside(
    run: Callable[[Emit], Awaitable[object]], what: str, write: Emit, stop: asyncio.Event
) -> AsyncIterator[None]:
    """Run it beside the block, which begins when it has begun; again, with growing pauses, when it ends before."""
    begun = asyncio.Event()
    working = asyncio.create_task(_work(run, what, write, stop, begun))
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


async def _work(
    run: Callable[[Emit], Awaitable[object]], what: str, write: Emit, stop: asyncio.Event, begun: asyncio.Event
) -> None:
    pause = FIRST_PAUSE

    def emit(fact: Fact) -> None:
        write(fact)
        if isinstance(fact, Begun | Consuming):
            begun.set()

    while not stop.is_set():
        try:
            await run(emit)
        except Exception as error:
            if not begun.is_set() or stop.is_set():
                raise
            reason = str(error) if isinstance(error, SendonceError) else type(error).__name__
            emit(WorkerFailed(reason=reason, again_in=pause, what=what))
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


def consuming_of(settings: Settings, consumers: Consumers, names: Iterable[str] = ()) -> consuming.Parts:
    """Return what consumers are run with, as the settings say."""
    return consuming.Parts(
        consumers=consumers_of(settings, consumers, names),
        database=settings.database,
        open_store=lambda: open_store(settings.database, writes=True),
        config=settings.consume.config,
        emit=logs.writer(settings.log.format),
        version=__version__,
        instance=settings.worker.instance,
        metrics=settings.consume.metrics,
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
