"""The channels every worker has: null, and http(s) where aiohttp is installed."""

from importlib.util import find_spec

from sendonce.channels.null import NullChannel
from sendonce.channels.registry import Channels


def builtin() -> Channels:
    """A fresh registry with the channels that come with sendonce."""
    channels = Channels()
    channels.add(NullChannel(), "null")
    if find_spec("aiohttp") is not None:
        from sendonce.channels.http import HttpChannel

        channels.add(HttpChannel(), "http", "https")
    return channels
