"""Every setting, by table and key, its variable and option; and a settings file that has them all as comments."""

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from difflib import get_close_matches
from textwrap import wrap

from sendonce.config.schema_brokers import BROKER_SETTINGS
from sendonce.config.schema_channels import OUTSIDE
from sendonce.config.schema_consumers import CONSUMER_SETTINGS
from sendonce.config.schema_engine import INSIDE
from sendonce.config.types import NAMED, NEVER, PREFIX, Setting
from sendonce.domain.destinations import BROKERS
from sendonce.domain.texts import nearest
from sendonce.errors import ConfigError

POLICY_VARIABLE, POLICY_OPTION = "SENDONCE_POLICY", "--policy"
# Those that are no settings: which file, who acts, a policy as JSON, and traces.
OTHER_VARIABLES = ("SENDONCE_CONFIG", "SENDONCE_OPERATOR", POLICY_VARIABLE, "SENDONCE_DEBUG")
# What keys, variables and options were called before: the old name is refused with the new one.
RENAMED = {
    "listen": "metrics",
    "SENDONCE_WORKER_LISTEN": "SENDONCE_WORKER_METRICS",
    "--listen": "--metrics",
}

SETTINGS: tuple[Setting, ...] = (*INSIDE, *OUTSIDE, *BROKER_SETTINGS, *CONSUMER_SETTINGS)
TABLES = {
    table: {each.key: each for each in SETTINGS if each.table == table}
    for table in dict.fromkeys(each.table for each in SETTINGS)
}


def check_variable(name: str) -> None:
    """Raise ConfigError for a variable of the environment that looks like one of ours, and is none."""
    known = {each.environment for each in SETTINGS} | set(OTHER_VARIABLES)
    if not name.startswith(PREFIX) or name in known:
        return
    if name in RENAMED:
        raise ConfigError(f"there is no variable {name}; it is called {RENAMED[name]} now")
    renamed = [each.variable for each in SETTINGS if each.variable and each.systematic == name]
    without_table = [
        each.environment for each in SETTINGS if f"{PREFIX}{each.key}".upper() == name and each.environment
    ]
    # Without the beginning that all of them share, and nearer than usual: the name may be somebody's own.
    ends = [each.removeprefix(PREFIX) for each in sorted(known) if each]
    close = [PREFIX + each for each in get_close_matches(name.removeprefix(PREFIX), ends, n=1, cutoff=0.8)]
    for meant in (renamed, close, without_table):
        if 1 <= len(meant) <= 2:
            raise ConfigError(f"there is no variable {name}; do you mean {' or '.join(meant)}?")


def suggestion(word: str, known: Sequence[str]) -> str:
    """What was meant, or what there is."""
    if RENAMED.get(word) in known:
        return f"it is called {RENAMED[word]} now"
    return nearest(word, known)


WIDTH = 100
NAMES = {"http": "http.shop", "apprise": "apprise.sms", "consumers": "consumers.wallet"} | {
    each: f"{each}.main" for each in BROKERS
}
HEAD = """\
# Settings of sendonce. Take away the # before what you want to change; what is left out has the value shown, or none.
# Options of the command line and variables of the environment (SENDONCE_WORKER_LEASE for lease in [worker]) go before
# this file. Secrets are texts, or better { env = "NAME" } or { file = "path" }. Times are like "30s", "5m", "2h", "7d".
"""


def example() -> str:
    """The text of the file; as it stands, it changes nothing."""
    return "\n".join([HEAD, *(line for name in TABLES for line in _table(name))])


def _table(name: str) -> Iterator[str]:
    # A table that needs a value, or has a name of somebody's own, is no default, not even an empty one.
    mark = "#" if name in NAMED or any(each.is_required for each in TABLES[name].values()) else ""
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
