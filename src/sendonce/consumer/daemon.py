"""Consumers at work in one process: opened on one database, stopped together, and with their metrics and health."""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from sendonce.consumer.config import ConsumeConfig
from sendonce.consumer.counters import ConsumerCounters
from sendonce.consumer.handling import Handling
from sendonce.consumer.registry import Consumer
from sendonce.consumer.runner import Runner
from sendonce.consumer.sources.protocol import Source
from sendonce.consumer.transactions import slots_on, transactions_on
from sendonce.engine.background import Backoff, Outage, background
from sendonce.engine.config import check_instance
from sendonce.engine.health import Health
from sendonce.engine.metrics_server import Address, Look, MetricsPage, serving
from sendonce.errors import StoreBusy
from sendonce.observability.facts import Emit, Fact, Stopping
from sendonce.observability.metrics import IN_HAND, Measured
from sendonce.store.ports import Store

# What says that the database is away, and is counted for it.
PART = "consumers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What consumers work with: each with its source, and how their database is opened.

    A database that has a name is worked on only as its `instance`; `until_idle` ends when nothing comes and nothing is
    due.
    """

    consumers: Sequence[tuple[Consumer, Source]]
    database: str
    open_store: Callable[[], Awaitable[Store]]
    config: ConsumeConfig
    emit: Emit
    version: str
    instance: str | None = None
    metrics: Address | None = None
    until_idle: bool = False


async def run(parts: Parts, *, stop: asyncio.Event | None = None) -> int:
    """Consume until SIGTERM or SIGINT, or until idle if so configured; in somebody's own process until `stop` is set.

    A second signal ends at once. Return how many messages were cut short: they come again.
    """
    health = Health("consumer")
    counters = ConsumerCounters(parts.version, [consumer for consumer, _ in parts.consumers], PART)

    def emit(fact: Fact) -> None:
        for hear in (parts.emit, health.on_fact, counters.on_fact):
            hear(fact)

    process = _Process(replace(parts, emit=emit), health, stop or asyncio.Event())
    page = MetricsPage(health, counters.measured, process.in_hand)
    with nullcontext() if stop is not None else _heard(process.on_signal):
        async with serving(parts.metrics, page, parts.emit):
            return await process.run(page)


class _Process:
    """The runners of one process, which share its database."""

    def __init__(self, parts: Parts, health: Health, stop: asyncio.Event) -> None:
        self._parts = parts
        self._health = health
        self._stop = stop
        self._outage = Outage(PART, parts.emit)
        self._runners: list[Runner] = []

    def on_signal(self) -> None:
        """Stop with grace at the first one, and at once at the next."""
        if self._stop.is_set():
            for each in self._runners:
                each.abandon()
        self._stop.set()

    def in_hand(self) -> list[Measured]:
        """Return how many messages each consumer has now, for Prometheus."""
        return [(IN_HAND, {(each.name,): each.in_hand for each in self._runners})]

    async def run(self, page: MetricsPage) -> int:
        store = await self._opened()
        if store is None:
            return 0
        page.look = look = Look(store.namespace)
        worker = f"{socket.gethostname()}:{os.getpid()}"
        self._runners = [self._runner(*each, store, worker) for each in self._parts.consumers]
        try:
            async with background(self._stop_all()):
                return await self._run_all()
        finally:
            look.close()
            await store.close()

    async def _opened(self) -> Store | None:
        """Return the database, as soon as it answers; None when told to stop before, ConfigError when it is another."""
        backoff = Backoff(self._outage)
        while not self._stop.is_set():
            try:
                store = await self._parts.open_store()
                try:
                    await check_instance(store, self._parts.instance)
                except BaseException:
                    await store.close()
                    raise
            except StoreBusy as error:
                await backoff.wait(error, self._stop)
                continue
            backoff.calm()
            return store
        return None

    def _runner(self, consumer: Consumer, source: Source, store: Store, worker: str) -> Runner:
        parts = self._parts
        amount = slots_on(parts.database, consumer)
        slots = [Handling(consumer, transactions_on(parts.database, consumer.begin)) for _ in range(amount)]
        return Runner(
            consumer, source, store, slots, parts.emit,
            worker=worker, grace=parts.config.grace, outage=self._outage, health=self._health,
            until_idle=parts.until_idle,
        )  # fmt: skip

    async def _run_all(self) -> int:
        """Run them all; what ends one of them by an error has the others finish too."""
        running = [asyncio.create_task(each.run()) for each in self._runners]
        try:
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
            for each in self._runners:
                each.stop()
            await asyncio.wait(running)
            return sum(each.result() for each in running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _stop_all(self) -> None:
        await self._stop.wait()
        self._health.is_stopping = True
        in_flight = sum(each.in_hand for each in self._runners)
        self._parts.emit(Stopping(in_flight=in_flight, grace=self._parts.config.grace))
        for each in self._runners:
            each.stop()


@contextmanager
def _heard(on_signal: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for each in numbers:
        loop.add_signal_handler(each, on_signal)
    try:
        yield
    finally:
        for each in numbers:
            loop.remove_signal_handler(each)
