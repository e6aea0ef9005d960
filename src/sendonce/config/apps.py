"""What an application has registered, found by the name of its module."""

import os
import sys
from importlib import import_module
from typing import TypeVar

from sendonce.channels.protocol import named
from sendonce.errors import ConfigError

T = TypeVar("T")


def load_app(app: str, kind: type[T], called: str) -> T:
    """Return the registry that `app` names as module:attribute; ConfigError says why there is none."""
    module_name, _, attribute = app.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except (ImportError, ConfigError) as error:
        raise ConfigError(f"the app {app} cannot be used: {error}") from None
    except SyntaxError as error:
        place = f"{os.path.basename(error.filename or module_name)}, line {error.lineno}"
        raise ConfigError(f"the app {app} cannot be used: {error.msg} ({place})") from None
    except Exception as error:  # whatever its code raises when it is imported
        raise ConfigError(f"the app {app} cannot be used: {named(error)}") from None
    found = getattr(module, attribute, None)
    if not isinstance(found, kind):
        raise ConfigError(f"the app {app} cannot be used: {module_name} has no {called} named {attribute}")
    return found
