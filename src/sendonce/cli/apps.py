"""Load a user's own channels: `module:attribute`, looked up from the working directory too."""

import sys
from importlib import import_module

from sendonce.channels.registry import Channels
from sendonce.errors import ConfigError


def load_channels(app: str) -> Channels:
    """The registry that `app` names; ConfigError says what is wrong with the name or the thing."""
    module_name, colon, attribute = app.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigError(f"--app is module:attribute, like shop.channels:channels; not {app!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"--app {app}: {error}") from None
    found = getattr(module, attribute, None)
    if not isinstance(found, Channels):
        raise ConfigError(f"--app {app}: {module_name} has no sendonce.channels.Channels named {attribute}")
    return found
