"""What is in force: every setting's value as it may be shown, and where it came from."""

from collections.abc import Iterator
from typing import NamedTuple

from sendonce.config.catalogue import TABLES
from sendonce.config.sources import Everything, Given, Table
from sendonce.config.types import NAMED, Setting

NOT_SET = "not set"
DEFAULT = "default"
# Worth seeing although nobody has set it: a command that looks at the wrong database looks at an empty one.
ALWAYS = ("database", "url")


class InForce(NamedTuple):
    """`setting` is table.key, with the name of a named table in between. `value` is a number, true or false, else text
    as it may be shown. `origin` is `default` where nobody set it."""

    setting: str
    value: str | float | bool
    origin: str


def in_force(everything: Everything, *, defaults: bool) -> list[InForce]:
    """What was set, in the order of the tables; with `defaults` also what was not. Secrets are only said to be set."""
    return [each for name in TABLES for each in _of(everything, name, defaults=defaults)]


def _of(everything: Everything, name: str, *, defaults: bool) -> Iterator[InForce]:
    if name not in NAMED:
        table = everything.table(name)
        for key, setting in table.settings.items():
            if key in table.given:
                yield _given(table, key)
            elif defaults or (name, key) == ALWAYS:
                yield InForce(f"{name}.{key}", _plain(setting.default, shown_default(setting)), DEFAULT)
    if name in NAMED or name == "policy":
        for table in everything.inner(name):
            yield from (_given(table, key) for key in table.given)


def shown_default(setting: Setting) -> str:
    """What holds when nobody sets it."""
    value = setting.default
    return setting.kind.shown(value) if _is_set(setting, value) else NOT_SET


def _is_set(setting: Setting, value: object) -> bool:
    return value not in (None, ()) or setting.kind.of_nothing


def _given(table: Table, key: str) -> InForce:
    value = table.get(key)
    shown = table.settings[key].kind.shown(value)
    return InForce(f"{table.name}.{key}", _plain(value, shown), _origin(table.given[key]))


def _plain(value: object, shown: str) -> str | float | bool:
    return value if isinstance(value, int | float) else shown


def _origin(given: Given) -> str:
    match given.value:
        case {"env": str(name)}:
            return f"{given.origin}, from {name}"
        case {"file": str(path)}:
            return f"{given.origin}, from {path}"
    return given.origin
