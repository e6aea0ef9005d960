"""The daemon: a worker and its lease keeper, each with its own event loop and its own connections."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace

from sendonce.channels.registry import Channels
from sendonce.domain.destinations import scheme_of
from sendonce.domain.policies import DEFAULT_POLICY, Policy
from sendonce.engine.alert_transports import transports_of
from sendonce.engine.alerter import Alerter
from sendonce.engine.alerts import AlertSettings
from sendonce.engine.auditing import Auditing, AuditSettings, Walking
from sendonce.engine.config import WorkerConfig, check_timeout
from sendonce.engine.credentials import CredentialsCache
from sendonce.engine.descriptors import check_descriptors
from sendonce.engine.gone import DisableGoneSubscriptions
from sendonce.engine.health import Health
from sendonce.engine.held_leases import HeldLeases
from sendonce.engine.instance import check_instance
from sendonce.engine.lease_keeper import LeaseKeeper
from sendonce.engine.memory import Memory
from sendonce.engine.metrics_server import Address, Page, attended, listening
from sendonce.engine.orchestrator import Orchestrator
from sendonce.engine.policies import Policies
from sendonce.engine.retention import Retention, RetentionSettings
from sendonce.engine.worker import Worker
from sendonce.observability.counters import Counters
from sendonce.observability.facts import Begun, Emit, Fact, ServerChanged, Stopped
from sendonce.observability.incidents import WINDOW_SECONDS, Incidents
from sendonce.sealing import SecretBox
from sendonce.store.ports import Notifier, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a daemon is built from: how to open its store (twice: one per thread), and what it sends through.

    `sealer` opens the subscriptions' secrets; without `alerts` nobody is told of anything, without `retention`
    everything is kept; at `listen` its metrics and its health are served; with `tracebacks` it is logged where own
    channels raise; `auditing` makes the walk of the audits that `audit` wants.
    """

    open_store: Callable[[], Awaitable[Store]]
    channels: Channels
    config: WorkerConfig
    emit: Emit
    version: str
    policy: Policy = DEFAULT_POLICY
    doorbell: Notifier | None = None
    sealer: SecretBox = field(default_factory=SecretBox)
    alerts: AlertSettings | None = None
    retention: RetentionSettings | None = None
    listen: Address | None = None
    tracebacks: bool = False
    audit: AuditSettings | None = None
    auditing: Walking | None = None


async def run(parts: Parts, *, stop: asyncio.Event | None = None) -> Stopped:
    """Work until SIGTERM or SIGINT, or until idle if so configured; in somebody's own process until `stop` is set."""
    check_timeout(parts.config, parts.policy)
    check_descriptors(parts.config.concurrency)
    vitals, tallies = Health(), Counters(parts.version)
    ears = [parts.emit, vitals.hear, *([tallies.hear] if parts.listen else [])]
    page = Page(vitals, tallies)
    async with listening(parts.listen, page, parts.emit):
        return await _work(replace(parts, emit=_heard(*ears)), vitals, page, stop)


async def _work(parts: Parts, vitals: Health, page: Page, stop: asyncio.Event | None) -> Stopped:
    policies = Policies(parts.policy, parts.channels.settings(), parts.channels.serving)
    store = await parts.open_store()
    name = f"{socket.gethostname()}:{os.getpid()}"
    try:
        await store.ready()
        worker_id = await store.register(
            name, parts.version, parts.config.concurrency,
            is_listening=parts.listen is not None, serves=parts.channels.names,
        )  # fmt: skip
        orchestrator = Orchestrator(store, policies, parts.channels)
        book = HeldLeases()
        namespace = await store.namespace()
        memory = await _memory_of(parts, store, namespace)
        gone = DisableGoneSubscriptions(store, parts.emit)
        alarm = _alarm_of(parts, store, namespace)
        incidents = Incidents(worker_id, parts.emit, tracebacks=parts.tracebacks)
        worker = Worker(
            orchestrator, store, parts.channels, policies, book, parts.config,
            worker_id=worker_id, namespace=namespace, doorbell=parts.doorbell,
            emit=parts.emit, vitals=vitals, is_counted=bool(parts.listen),
            rooms=store, keyring=CredentialsCache(store, parts.sealer), memory=memory, name=name,
            on_settled=(gone.note, incidents.note, *([alarm.note] if alarm else [])), on_raise=incidents.raised,
        )  # fmt: skip
        parts.emit(
            Begun(
                worker_id=worker_id,
                name=name,
                concurrency=parts.config.concurrency,
                channels=tuple(sorted(parts.channels.settings())),
            )
        )
        loop = asyncio.get_running_loop()
        keeping = _KeeperThread(
            parts, book, orchestrator, worker_id, vitals, incidents, memory,
            on_end=lambda: loop.call_soon_threadsafe(worker.stop),
        )  # fmt: skip
        keeping.start()
        try:
            if stop is None:
                _stop_on_signals(worker)
            shown = nullcontext() if parts.listen is None else _shown(parts, page, worker, worker_id)
            pruned = _pruned(parts, store, worker_id)
            audited = _audited(parts, store, policies, namespace, worker_id)
            watched = _watched(alarm, until_idle=parts.config.until_idle)
            async with _minding(gone), _summed_up(incidents), _told(worker, stop), watched, pruned, audited, shown:
                stopped = await worker.run()
        finally:
            await asyncio.to_thread(keeping.stop)
        return stopped
    finally:
        if parts.doorbell is not None:
            await parts.doorbell.close()
        await parts.channels.close()
        await store.close()


def _shown(parts: Parts, page: Page, worker: Worker, worker_id: int) -> AbstractAsyncContextManager[None]:
    schemes = {scheme_of(each) for each in parts.channels.settings()}
    kept = {} if parts.retention is None else parts.retention.stages
    return attended(page, parts.open_store, worker, worker_id, parts.emit, schemes, kept)


async def _memory_of(parts: Parts, store: Store, namespace: str) -> Memory:
    """What this worker knows of its database; ConfigError when that is not the one it is for."""
    await check_instance(store, parts.config.instance)
    memory = Memory(parts.config.state, namespace=namespace, instance=parts.config.instance)
    is_other, _ = memory.see(await store.server())
    if is_other:
        parts.emit(ServerChanged())
    return memory


def _alarm_of(parts: Parts, store: Store, namespace: str) -> Alerter | None:
    if parts.alerts is None:
        return None
    return Alerter(store, parts.alerts, transports_of(parts.alerts, parts.channels, namespace), parts.emit)


def _heard(*ears: Emit) -> Emit:
    """Let all of them hear each fact."""

    def each(fact: Fact) -> None:
        for hear in ears:
            hear(fact)

    return each


@asynccontextmanager
async def _told(worker: Worker, stop: asyncio.Event | None) -> AsyncIterator[None]:
    """Stop the worker when somebody says so."""

    async def listen(told: asyncio.Event) -> None:
        await told.wait()
        worker.stop()

    listening = None if stop is None else asyncio.create_task(listen(stop))
    try:
        yield
    finally:
        if listening is not None:
            listening.cancel()


@asynccontextmanager
async def _minding(gone: DisableGoneSubscriptions) -> AsyncIterator[None]:
    """Disable subscriptions of receivers that are gone, while the worker works and once more at its end."""
    minding = asyncio.create_task(gone.run())
    try:
        yield
    finally:
        minding.cancel()
        await asyncio.gather(minding, return_exceptions=True)
        await gone.apply()


@asynccontextmanager
async def _summed_up(incidents: Incidents) -> AsyncIterator[None]:
    """Tell now and then, and at the end, how many more deliveries did not get through than were told of."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(WINDOW_SECONDS)
            incidents.flush()

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        incidents.flush()


@asynccontextmanager
async def _watched(alarm: Alerter | None, *, until_idle: bool) -> AsyncIterator[None]:
    """Look now and then while the worker works; one that runs until idle may end before that, and looks at its end."""
    if alarm is None:
        yield
        return
    looking = asyncio.create_task(alarm.run())
    try:
        yield
        if until_idle:
            await alarm.look()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


@asynccontextmanager
async def _pruned(parts: Parts, store: Store, worker_id: int) -> AsyncIterator[None]:
    """Take part in retention while the worker works. A pass that is cut short is another worker's after a while."""
    if parts.retention is None:
        yield
        return
    retention = Retention(store, parts.retention, parts.emit, worker_id=worker_id)
    pruning = asyncio.create_task(retention.run())
    try:
        yield
    finally:
        pruning.cancel()
        await asyncio.gather(pruning, return_exceptions=True)


@asynccontextmanager
async def _audited(
    parts: Parts, store: Store, policies: Policies, namespace: str, worker_id: int
) -> AsyncIterator[None]:
    """Take part in audits while the worker works. One that is cut short is another worker's after a while."""
    if parts.audit is None or parts.audit.audit_every is None or parts.auditing is None:
        yield
        return
    walk = parts.auditing(store, policies, namespace, CredentialsCache(store, parts.sealer))
    looking = asyncio.create_task(Auditing(store, parts.audit, walk, parts.emit, worker_id=worker_id).run())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


class _KeeperThread:
    """The lease keeper on its own loop: renewals are on time even when a channel blocks the sender's loop."""

    def __init__(
        self, parts: Parts, book: HeldLeases, orchestrator: Orchestrator, worker_id: int, vitals: Health,
        incidents: Incidents, memory: Memory, on_end: Callable[[], object],
    ) -> None:  # fmt: skip
        self._on_end = on_end
        self._vitals = vitals
        self._incidents = incidents
        self._memory = memory
        self._parts = parts
        self._book = book
        self._orchestrator = orchestrator
        self._worker_id = worker_id
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="sendonce-keeper", daemon=True)

    def start(self) -> None:
        """Begin, or raise what prevents it."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Release what is done, and end; raises what ended it before its time."""
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=30)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._keep())
        except BaseException as error:
            # Without a keeper no lease is renewed: the worker stops, and this is raised there.
            self._failure = error
            if self._ready.is_set():
                self._on_end()
        finally:
            self._ready.set()

    async def _keep(self) -> None:
        store = await self._parts.open_store()
        try:
            keeper = LeaseKeeper(
                store, self._book, self._orchestrator.decide,
                worker_id=self._worker_id, hold=self._parts.config.lease, emit=self._parts.emit,
                vitals=self._vitals, on_expired=self._incidents.note, memory=self._memory,
            )  # fmt: skip
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            self._ready.set()
            await keeper.run(self._stop)
        finally:
            await store.close()


def _stop_on_signals(worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, worker.stop)
