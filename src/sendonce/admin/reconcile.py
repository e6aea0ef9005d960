"""Ask receivers: now about everything in doubt, or whether they have what is marked sent."""

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sendonce.channels.registry import Channels
from sendonce.config.channels import channels_of
from sendonce.config.load import Settings
from sendonce.engine.config import check_instance
from sendonce.engine.orchestrator import Orchestrator, Policies
from sendonce.engine.reconciler import CONCURRENCY, Asked, Reconciled, Reconciler
from sendonce.engine.subscriptions import CredentialsCache
from sendonce.store.ports import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Through:
    """What a worker with the same settings asks through."""

    channels: Channels
    policies: Policies
    credentials: CredentialsCache
    namespace: str


@asynccontextmanager
async def through(store: Store, settings: Settings, channels: Channels | None = None) -> AsyncIterator[Through]:
    """Open the channels of the settings, or the given ones, for this database; ConfigError for another's settings."""
    channels = channels or channels_of(settings)
    try:
        await check_instance(store, settings.worker.instance)
        yield Through(
            channels=channels,
            policies=Policies(settings.policy, channels.settings(), channels.serving),
            credentials=CredentialsCache(store, settings.sealer),
            namespace=await store.namespace(),
        )
    finally:
        await channels.close()


async def reconcile(
    store: Store, settings: Settings, channels: Channels | None, on_asked: Callable[[Asked], None]
) -> Reconciled:
    """Ask about each delivery in doubt once; nothing is sent."""
    from sendonce import __version__

    async with through(store, settings, channels) as means:
        name = f"reconcile {socket.gethostname()}:{os.getpid()}"
        worker_id = await store.register(name, __version__, CONCURRENCY, serves=())
        orchestrator = Orchestrator(store, means.policies, means.channels)
        reconciler = Reconciler(
            orchestrator, store, means.channels, means.policies, namespace=means.namespace, worker_id=worker_id,
            credentials=means.credentials, instance=settings.worker.instance,
        )  # fmt: skip
        try:
            return await reconciler.run(on_asked)
        finally:
            await store.leave(worker_id)
