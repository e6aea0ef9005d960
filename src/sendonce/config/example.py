"""A complete settings file to start from: every setting is in it as a comment, with its default."""

import json
from collections.abc import Iterator
from datetime import timedelta
from textwrap import wrap

from sendonce.config.catalogue import TABLES
from sendonce.config.kinds import NEVER
from sendonce.config.setting import Setting

WIDTH = 100
NAMES = {"http": "http.shop", "apprise": "apprise.sms"}
HEAD = """\
# Settings of sendonce. Take away the # before what you want to change; what is left out has the value shown, or none.
# Options of the command line and variables of the environment (SENDONCE_WORKER_LEASE for lease in [worker]) go before
# this file. Secrets are texts, or better { env = "NAME" } or { file = "path" }. Times are like "30s", "5m", "2h", "7d".
"""


def example() -> str:
    """The text of the file; as it stands, it changes nothing."""
    return "\n".join([HEAD, *(line for name in TABLES for line in _table(name))])


def _table(name: str) -> Iterator[str]:
    # A table that needs a value is no default, not even an empty one.
    mark = "#" if any(each.is_required for each in TABLES[name].values()) else ""
    yield f"{mark}[{NAMES.get(name, name)}]"
    for setting in TABLES[name].values():
        yield from wrap(setting.about.replace("`", ""), WIDTH, initial_indent="# ", subsequent_indent="# ")
        if setting.variable:
            yield f"# Its variable is {setting.variable}."
        yield f"#{setting.key} = {spelled_default(setting) or setting.example}"
    yield ""


def spelled_default(setting: Setting) -> str:
    """The default as it is written in the file; empty when there is none."""
    value = setting.default
    if isinstance(value, timedelta):
        return f'"{setting.kind.shown(value)}"'
    if value is None and setting.kind.of_nothing:
        return f'"{NEVER}"'
    return "" if value in (None, ()) else json.dumps(value)
