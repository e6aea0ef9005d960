"""Ask receivers about what is in doubt or marked sent, and put what is open in doubt after lost commits."""

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from sendonce.admin.session import Session
from sendonce.admin.text import counted
from sendonce.channels.registry import Channels
from sendonce.config.channels import channels_of
from sendonce.config.load import Settings
from sendonce.engine.config import check_instance
from sendonce.engine.orchestrator import Orchestrator, Policies
from sendonce.engine.reconciler import CONCURRENCY, Asked, Reconciled, Reconciler
from sendonce.engine.subscriptions import CredentialsCache
from sendonce.errors import ConfigError, NotAllowed
from sendonce.store.ports import Store

STEP = 10_000
LONGEST_WAIT = timedelta(days=365)
# As long as any channel of ours says that its other side's look-up may lag.
USUAL_WAIT = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubted:
    """How many open deliveries were put in doubt so far, and up to which id was looked."""

    changed: int
    last_id: int


async def open_in_doubt(
    store: Store, *, operator: str, reason: str, wait: timedelta | None = None, even_if_running: bool = False
) -> AsyncIterator[Doubted]:
    """Put all open deliveries in doubt, in steps; how far it has come after each. Logged, also when interrupted.

    None is due before `wait` is over: a provider may not find yet what it was sent just before the failover. Not said,
    it is USUAL_WAIT, or longer for a subscription whose own policy says so.

    A worker that runs has claimed without doubt and would send without asking, so none may.
    """
    if wait is not None and not timedelta(0) <= wait <= LONGEST_WAIT:
        raise ConfigError(f"a wait is between zero and {LONGEST_WAIT.days} days long")
    workers = (await store.status()).workers
    if workers and not even_if_running:
        named = ", ".join(each.name for each in workers[:3])
        raise NotAllowed(f"{counted(len(workers), 'worker')} alive ({named}): stop first, or add --even-if-running")
    changed, after = 0, 0
    try:
        while True:
            step, last = await store.doubt(
                after, STEP, wait=USUAL_WAIT if wait is None else wait, is_exact=wait is not None
            )
            if last is None:
                return
            changed, after = changed + step, last
            yield Doubted(changed=changed, last_id=after)
    finally:
        await store.log_doubt(operator=operator, reason=reason, affected=changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Through:
    """What a worker with the same settings asks through."""

    store: Store
    channels: Channels
    policies: Policies
    credentials: CredentialsCache
    namespace: str
    instance: str | None


@asynccontextmanager
async def through(session: Session, settings: Settings, channels: Channels | None = None) -> AsyncIterator[Through]:
    """Open the channels of the settings, or the given ones, for this database; ConfigError for another's settings."""
    channels = channels or channels_of(settings)
    try:
        store = await session.store()
        await check_instance(store, settings.worker.instance)
        yield Through(
            store=store,
            channels=channels,
            policies=Policies(settings.policy, channels.settings(), channels.serving),
            credentials=CredentialsCache(store, settings.sealer),
            namespace=await store.namespace(),
            instance=settings.worker.instance,
        )
    finally:
        await channels.close()


async def reconcile(means: Through, on_asked: Callable[[Asked], None]) -> Reconciled:
    """Ask about each delivery in doubt once; nothing is sent."""
    from sendonce import __version__

    store = means.store
    name = f"reconcile {socket.gethostname()}:{os.getpid()}"
    worker_id = await store.register(name, __version__, CONCURRENCY, serves=())
    orchestrator = Orchestrator(store, means.policies, means.channels)
    reconciler = Reconciler(
        orchestrator, store, means.channels, means.policies, namespace=means.namespace, worker_id=worker_id,
        credentials=means.credentials, instance=means.instance,
    )  # fmt: skip
    try:
        return await reconciler.run(on_asked)
    finally:
        await store.leave(worker_id)
