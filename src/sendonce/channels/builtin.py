"""The channels every worker has: null, and http(s) where aiohttp is installed."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sendonce.channels.guard import Guard
from sendonce.channels.null import NullChannel
from sendonce.channels.registry import Channels

if TYPE_CHECKING:
    from sendonce.channels.client import HttpClient
    from sendonce.channels.http import HttpProfile


def builtin(
    *, client: "HttpClient | None" = None, secret: str | None = None, profiles: "Sequence[HttpProfile]" = ()
) -> Channels:
    """A fresh registry with the channels that come with sendonce.

    `client` is what they send with, else one guarded as the environment says; `secret` signs what has no subscription.
    """
    channels = Channels()
    channels.add(NullChannel(), "null")
    if find_spec("aiohttp") is None:
        return channels
    from sendonce.channels.client import HttpClient
    from sendonce.channels.http import endpoint
    from sendonce.channels.webhook import Webhook

    client = client or HttpClient(Guard.from_environment())
    channels.add(Webhook(client, secret=secret), "http", "https")
    for profile in profiles:
        channels.add(endpoint(profile, client), profile.url, **profile.policy)
    return channels
