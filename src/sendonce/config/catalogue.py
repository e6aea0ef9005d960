"""Every setting there is, by table and key, and the variables and options that set them."""

from collections.abc import Sequence
from difflib import get_close_matches

from sendonce.config.inside import INSIDE
from sendonce.config.outside import OUTSIDE
from sendonce.config.setting import PREFIX, Setting
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

SETTINGS: tuple[Setting, ...] = (*INSIDE, *OUTSIDE)
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
    without_table = [each.environment for each in SETTINGS if f"{PREFIX}{each.key}".upper() == name]
    # Without the beginning that all of them share, and nearer than usual: the name may be somebody's own.
    ends = [each.removeprefix(PREFIX) for each in sorted(known) if each]
    close = [PREFIX + each for each in get_close_matches(name.removeprefix(PREFIX), ends, n=1, cutoff=0.8)]
    for meant in (renamed, close, without_table):
        if len(meant) == 1 and meant[0]:
            raise ConfigError(f"there is no variable {name}; do you mean {meant[0]}?")


def suggestion(word: str, known: Sequence[str]) -> str:
    """What was meant, or what there is."""
    if RENAMED.get(word) in known:
        return f"it is called {RENAMED[word]} now"
    if close := get_close_matches(word, known, n=1):
        return f"do you mean {close[0]}?"
    return f"there are: {', '.join(known)}"
