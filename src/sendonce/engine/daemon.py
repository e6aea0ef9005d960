"""The daemon: a worker and its lease keeper, each with its own event loop and its own connections."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

from sendonce.channels.registry import Channels
from sendonce.domain.destinations import scheme_of
from sendonce.domain.policies import DEFAULT_POLICY, Policy
from sendonce.engine.alerter import Alerter, transports_of
from sendonce.engine.alerts import AlertSettings
from sendonce.engine.audits import Auditing, AuditSettings, Walking
from sendonce.engine.background import background
from sendonce.engine.build import build_engine
from sendonce.engine.config import WorkerConfig, check_instance, check_timeout
from sendonce.engine.health import Health
from sendonce.engine.lease_keeper import LeaseKeeper
from sendonce.engine.memories import Memories
from sendonce.engine.memory import Memory
from sendonce.engine.metrics_server import Address, MetricsPage, attended, serving
from sendonce.engine.orchestrator import Policies
from sendonce.engine.retention import Retention, RetentionSettings
from sendonce.engine.subscriptions import CredentialsCache
from sendonce.engine.worker import Worker
from sendonce.errors import ConfigError
from sendonce.observability.facts import Begun, Emit, Fact, ServerChanged, Stopped
from sendonce.observability.incidents import Incidents
from sendonce.observability.metrics import IN_FLIGHT, Counters, alone
from sendonce.sealing import SecretBox
from sendonce.store.ports import LeaseStore, Notifier, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a daemon is built from: how to open its store (twice: one per thread), and what it sends through.

    `sealer` opens the subscriptions' secrets; without `alerts` nobody is told of anything, without `retention`
    everything is kept; at `metrics` its metrics and its health are served; with `tracebacks` it is logged where own
    channels raise; `auditing` makes the walk of the audits that `audit` wants.
    """

    open_store: Callable[[], Awaitable[Store]]
    channels: Channels
    config: WorkerConfig
    emit: Emit
    version: str
    policy: Policy = DEFAULT_POLICY
    notifier: Notifier | None = None
    sealer: SecretBox = field(default_factory=SecretBox)
    alerts: AlertSettings | None = None
    retention: RetentionSettings | None = None
    metrics: Address | None = None
    tracebacks: bool = False
    audit: AuditSettings | None = None
    auditing: Walking | None = None


async def run(parts: Parts, *, stop: asyncio.Event | None = None) -> Stopped:
    """Work until SIGTERM or SIGINT, or until idle if so configured; in somebody's own process until `stop` is set."""
    check_timeout(parts.config, parts.policy)
    check_descriptors(parts.config.concurrency)
    health, counters = Health(), Counters(parts.version)
    listeners = [parts.emit, health.on_fact, *([counters.on_fact] if parts.metrics else [])]
    page = MetricsPage(health, counters.measured, lambda: [(IN_FLIGHT, alone(0))])
    async with serving(parts.metrics, page, parts.emit):
        return await _work(replace(parts, emit=_to_all(*listeners)), health, page, stop)


async def _work(parts: Parts, health: Health, page: MetricsPage, stop: asyncio.Event | None) -> Stopped:
    policies = Policies(parts.policy, parts.channels.settings(), parts.channels.serving)
    store = await parts.open_store()
    name = f"{socket.gethostname()}:{os.getpid()}"
    try:
        await store.ready()
        worker_id = await store.register(
            name, parts.version, parts.config.concurrency,
            is_listening=parts.metrics is not None, serves=parts.channels.names,
        )  # fmt: skip
        namespace = await store.namespace()
        memory = await _memory_of(parts, store, namespace)
        alerter = _alerter_of(parts, store, namespace)
        incidents = Incidents(worker_id, parts.emit, tracebacks=parts.tracebacks)
        engine = build_engine(
            store, parts.channels, policies, parts.config,
            worker_id=worker_id, namespace=namespace, emit=parts.emit, secret_box=parts.sealer, memory=memory,
            name=name, notifier=parts.notifier, health=health, is_counted=bool(parts.metrics),
            on_settled=(incidents.note, *([alerter.note] if alerter else [])), on_expired=incidents.note,
            on_raise=incidents.raised,
        )  # fmt: skip
        worker = engine.worker
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
            parts.open_store, engine.keeper_on, on_end=lambda: loop.call_soon_threadsafe(worker.stop)
        )
        keeping.start()
        try:
            if stop is None:
                _stop_on_signals(worker)
            loops = [
                engine.gone.run(),
                incidents.run(),
                Memories(parts.channels, policies, parts.config.lease, parts.emit).run(),
                *([_stopped_by(stop, worker)] if stop else []),
                *([alerter.run()] if alerter else []),
                *_upkeep(parts, store, policies, namespace, worker_id),
            ]
            async with background(*loops):
                async with nullcontext() if parts.metrics is None else _shown(parts, page, worker, worker_id):
                    stopped = await worker.run()
                if alerter is not None and parts.config.until_idle:
                    await alerter.look()  # it may have ended before its first look
        finally:
            await engine.gone.apply()
            incidents.flush()
            await asyncio.to_thread(keeping.stop)
        return stopped
    finally:
        if parts.notifier is not None:
            await parts.notifier.close()
        await parts.channels.close()
        await store.close()


def _shown(parts: Parts, page: MetricsPage, worker: Worker, worker_id: int) -> AbstractAsyncContextManager[None]:
    schemes = {scheme_of(each) for each in parts.channels.settings()}
    kept = {} if parts.retention is None else parts.retention.stages
    return attended(page, parts.open_store, worker, worker_id, parts.emit, schemes, kept)


async def _memory_of(parts: Parts, store: Store, namespace: str) -> Memory:
    """Return what this worker remembers of its database; ConfigError when the database is another instance's."""
    await check_instance(store, parts.config.instance)
    memory = Memory(parts.config.state, namespace=namespace, instance=parts.config.instance)
    is_other, _ = memory.see(await store.server())
    if is_other:
        parts.emit(ServerChanged())
    return memory


def _alerter_of(parts: Parts, store: Store, namespace: str) -> Alerter | None:
    if parts.alerts is None:
        return None
    return Alerter(store, parts.alerts, transports_of(parts.alerts, parts.channels, namespace), parts.emit)


def _to_all(*listeners: Emit) -> Emit:
    """Pass each fact to all of them."""

    def each(fact: Fact) -> None:
        for hear in listeners:
            hear(fact)

    return each


async def _stopped_by(stop: asyncio.Event, worker: Worker) -> None:
    """Stop the worker when `stop` is set."""
    await stop.wait()
    worker.stop()


def _upkeep(
    parts: Parts, store: Store, policies: Policies, namespace: str, worker_id: int
) -> Iterator[Coroutine[object, object, object]]:
    """Take part in retention and audits. Another worker continues what is cut short."""
    if parts.retention is not None:
        yield Retention(store, parts.retention, parts.emit, worker_id=worker_id).run()
    if parts.audit is not None and parts.audit.audit_every is not None and parts.auditing is not None:
        walk = parts.auditing(store, policies, namespace, CredentialsCache(store, parts.sealer))
        yield Auditing(store, parts.audit, walk, parts.emit, worker_id=worker_id).run()


class _KeeperThread:
    """The lease keeper on its own loop: renewals are on time even when a channel blocks the sender's loop."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        keeper_on: Callable[[LeaseStore], LeaseKeeper],
        on_end: Callable[[], object],
    ) -> None:
        self._open_store = open_store
        self._keeper_on = keeper_on
        self._on_end = on_end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="sendonce-keeper", daemon=True)

    def start(self) -> None:
        """Start the thread; raise what prevents that."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Release finished leases and end the thread; raise what ended it too early."""
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
        store = await self._open_store()
        try:
            keeper = self._keeper_on(store)
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            self._ready.set()
            await keeper.run(self._stop)
        finally:
            await store.close()


def _stop_on_signals(worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, worker.stop)


# The program itself, its connections to the database, and what serves its metrics.
BESIDES = 40


def check_descriptors(concurrency: int) -> None:
    """Raise the soft limit on open files as far as needed; ConfigError where the hard limit is too low."""
    if find_spec("resource") is None:  # not on this system
        return
    import resource

    needed = concurrency + BESIDES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _covers(soft, needed):
        return
    if not _covers(hard, needed):
        raise ConfigError(
            f"this process may open {hard} files, and {concurrency} sends at once need {needed}; raise its limit"
            " (ulimit -n, LimitNOFILE=) or lower concurrency"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _covers(limit: int, needed: int) -> bool:
    import resource

    return limit == resource.RLIM_INFINITY or limit >= needed
