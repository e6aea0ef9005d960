"""What `reconcile` asks through: the database, the channels, their policies and the subscriptions' secrets."""

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sendonce.cli.running import with_store
from sendonce.cli.sending import channels_for, settings_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sendonce.channels.registry import Channels
    from sendonce.engine.credentials import CredentialsCache
    from sendonce.engine.policies import Policies
    from sendonce.store.ports import Store

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a worker with the same options would have."""

    store: "Store"
    channels: "Channels"
    policies: "Policies"
    keyring: "CredentialsCache"
    instance: str | None


def with_means(args: argparse.Namespace, work: "Callable[[Means], Awaitable[Answer]]") -> Answer:
    """What `work` answers; channels and database are closed whatever happens."""
    from sendonce.engine.credentials import CredentialsCache
    from sendonce.engine.policies import Policies

    settings = settings_for(args)
    channels = channels_for(settings)
    policies = Policies(settings.policy, channels.settings(), channels.serving)

    async def working(store: "Store") -> Answer:
        try:
            return await work(
                Means(
                    store=store,
                    channels=channels,
                    policies=policies,
                    keyring=CredentialsCache(store, settings.sealer),
                    instance=settings.worker.instance,
                )
            )
        finally:
            await channels.close()

    return with_store(args, working)
