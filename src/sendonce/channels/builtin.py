"""The channels every worker has: null, and http(s) where its packages are installed."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sendonce.channels.guard import Guard
from sendonce.channels.null import NullChannel
from sendonce.channels.registry import Channels

if TYPE_CHECKING:
    from sendonce.channels.client import HttpClient
    from sendonce.channels.http import HttpProfile


def has_http() -> bool:
    """Whether the packages are installed that HTTP needs: the client, and what looks names up."""
    return find_spec("aiohttp") is not None and find_spec("aiodns") is not None


def builtin(
    *, client: "HttpClient | None" = None, secret: str | None = None, profiles: "Sequence[HttpProfile]" = ()
) -> Channels:
    """A fresh registry with the channels that come with sendonce.

    `client` is what they send with, else one guarded as the environment says; `secret` signs what has no subscription.
    """
    channels = Channels()
    channels.add(NullChannel(), "null")
    if not has_http():
        return channels
    from sendonce.channels.client import HttpClient
    from sendonce.channels.http import endpoint
    from sendonce.channels.webhook import Webhook

    client = client or HttpClient(Guard.from_environment())
    channels.add(Webhook(client, secret=secret), "http", "https")
    for profile in profiles:
        channels.add(endpoint(profile, client), profile.url, **profile.policy)
        if profile.for_subscriptions:
            channels.open_to_subscriptions(profile.url)
    return channels
