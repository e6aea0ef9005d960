"""What `reconcile` asks through: the database, the channels, their policies and the subscriptions' secrets."""

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sendonce.cli.failures import WrongUse
from sendonce.cli.running import with_store
from sendonce.cli.sending import channels_for, settings_for
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sendonce.channels.registry import Channels
    from sendonce.engine.keyring import SubscriptionKeyring
    from sendonce.engine.policies import Policies
    from sendonce.stores.ports import Store

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a worker with the same options would have."""

    store: "Store"
    channels: "Channels"
    policies: "Policies"
    keyring: "SubscriptionKeyring"


def with_means(args: argparse.Namespace, work: "Callable[[Means], Awaitable[Answer]]") -> Answer:
    """What `work` answers; channels and database are closed whatever happens."""
    import os

    from sendonce.domain.policies import DEFAULT_POLICY, parse_policy
    from sendonce.engine.keyring import SubscriptionKeyring
    from sendonce.engine.policies import Policies

    settings = settings_for(args)
    channels = channels_for(args, settings)
    try:
        policy = parse_policy(DEFAULT_POLICY, args.policy or os.environ.get("SENDONCE_POLICY"))
        policies = Policies(policy, channels.settings())
    except ConfigError as error:
        raise WrongUse(str(error)) from None

    async def working(store: "Store") -> Answer:
        try:
            return await work(
                Means(
                    store=store,
                    channels=channels,
                    policies=policies,
                    keyring=SubscriptionKeyring(store, settings.sealer),
                )
            )
        finally:
            await channels.close()

    return with_store(args, working)
