"""Load a user's own channels: `module:attribute`, looked up from the working directory too."""

import sys
from importlib import import_module

from sendonce.channels.registry import Channels
from sendonce.errors import ConfigError


def load_channels(app: str) -> Channels:
    """The registry that `app` names as module:attribute; ConfigError says why there is none."""
    module_name, _, attribute = app.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"the app {app} cannot be used: {error}") from None
    found = getattr(module, attribute, None)
    if not isinstance(found, Channels):
        why = f"{module_name} has no sendonce.channels.Channels named {attribute}"
        raise ConfigError(f"the app {app} cannot be used: {why}")
    return found
