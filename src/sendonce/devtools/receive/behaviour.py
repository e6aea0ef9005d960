"""How the receiver behaves, as it is written in options and in the control document. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from sendonce.domain.durations import parse_duration
from sendonce.errors import ConfigError


@dataclass(frozen=True, slots=True)
class When:
    """Which requests are meant: a share of them, the first ones, or the first ones of each token."""

    share: float = 1.0
    first: int | None = None
    each: int | None = None

    def meets(self, number: int, of_token: int) -> bool:
        """Whether it is meant, after `number` other requests, of which `of_token` had the same token."""
        if self.first is not None:
            return number < self.first
        if self.each is not None:
            return of_token < self.each
        return int((number + 1) * self.share) > int(number * self.share)


ALWAYS = When()


@dataclass(frozen=True, slots=True)
class Fail:
    """Turn it away with this status; nothing is accepted."""

    status: int
    when: When = ALWAYS


@dataclass(frozen=True, slots=True)
class Wait:
    """Take so long."""

    seconds: float
    when: When = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Well, unless told otherwise. In the order in which a request meets them:

    `slow` before it looks at a request: who hangs up meanwhile was not heard; `fail` with a status, and a time in
    `retry_after`; `drop` without accepting; then it accepts, once per token if it is to `deduplicate`;
    `drop_after_accept`; and `late` before it answers, with an id for it (`ids`) and perhaps `twice`.
    """

    slow: Wait | None = None
    fail: Fail | None = None
    retry_after: float | None = None
    drop: When | None = None
    deduplicate: bool = False
    drop_after_accept: When | None = None
    late: Wait | None = None
    ids: bool = True
    twice: When | None = None
    look_up_slow: Wait | None = None
    look_up_fail: Fail | None = None
    mail_fail: Fail | None = None


WELL = Behaviour()
NAMES = tuple(field.name for field in fields(Behaviour))


def changed(behaviour: Behaviour, settings: Mapping[str, object]) -> Behaviour:
    """The behaviour with these settings in place of its own; null puts one back. ConfigError says what is wrong."""
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in NAMES:
            raise ConfigError(f"there is no behaviour {name!r}; there are: {', '.join(NAMES)}")
        try:
            values[name] = getattr(WELL, name) if value is None else _READERS[name](value)
        except (ValueError, TypeError):
            raise ConfigError(f"{name} cannot be {value!r}: {_HINTS[_READERS[name]]}") from None
    return replace(behaviour, **values)


def _when(value: object) -> When:
    """true, a share such as 0.2, or first:3, or each:1."""
    if isinstance(value, bool):
        return ALWAYS if value else When(share=0.0)
    word, colon, number = str(value).partition(":")
    if not colon:
        share = float(word)
        if not 0 <= share <= 1:
            raise ValueError(word)
        return When(share=share)
    amount = int(number)
    if amount < 0 or word not in ("first", "each"):
        raise ValueError(word)
    return When(first=amount) if word == "first" else When(each=amount)


def _fail(value: object) -> Fail:
    status, colon, when = str(value).partition(":")
    if not 300 <= int(status) <= 599:
        raise ValueError(status)
    return Fail(int(status), _when(when) if colon else ALWAYS)


def _wait(value: object) -> Wait:
    duration, colon, when = str(value).partition(":")
    return Wait(parse_duration(duration).total_seconds(), _when(when) if colon else ALWAYS)


def _seconds(value: object) -> float:
    return parse_duration(value).total_seconds()


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


_READERS = {
    "slow": _wait,
    "fail": _fail,
    "retry_after": _seconds,
    "drop": _when,
    "deduplicate": _switch,
    "drop_after_accept": _when,
    "late": _wait,
    "ids": _switch,
    "twice": _when,
    "look_up_slow": _wait,
    "look_up_fail": _fail,
    "mail_fail": _fail,
}
_HINTS = {
    _when: "say 0.2 for one in five, first:3, or each:1 for the first of each token",
    _fail: "say a status from 300 to 599, as in 503, 503:0.2, 503:first:3 or 503:each:1",
    _wait: "say how long, as in 2s, 500ms:0.5 or 2s:first:3",
    _seconds: "say how long, as in 2s",
    _switch: "say true or false",
}


class Rule:
    """One behaviour with its counts, which begin again for every setting that is changed."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self._met: dict[str, Counter[str]] = {name: Counter() for name in NAMES}

    def change(self, settings: Mapping[str, object]) -> None:
        self.behaviour = changed(self.behaviour, settings)
        for name in settings:
            self._met[name].clear()

    def meets(self, name: str, when: When | None, token: str) -> bool:
        """Whether this request meets the rule of this name; it is counted."""
        if when is None:
            return False
        met = self._met[name]
        number, of_token = met[""], met[token] if token else met[""]
        met[""] += 1
        if token and when.each is not None:
            met[token] += 1
        return when.meets(number, of_token)

    def status(self, name: str, token: str) -> int | None:
        """The status to turn it away with, if it is to be."""
        fail = getattr(self.behaviour, name)
        return fail.status if fail is not None and self.meets(name, fail.when, token) else None

    def seconds(self, name: str, token: str) -> float:
        """How long to wait."""
        wait = getattr(self.behaviour, name)
        return wait.seconds if wait is not None and self.meets(name, wait.when, token) else 0.0


class Rules:
    """The rule for everything, and those for paths that begin in some way."""

    def __init__(self, behaviour: Behaviour = WELL) -> None:
        self._rules: dict[str, Rule] = {"": Rule(behaviour)}

    def of(self, path: str) -> Rule:
        return self._rules[max((name for name in self._rules if path.startswith(name)), key=len)]

    def change(self, settings: Mapping[str, object], path: str = "") -> None:
        """Change the behaviour of paths that begin like this; a new one begins as the one for everything is now."""
        rule = self._rules.get(path)
        if rule is None:
            rule = Rule(self._rules[""].behaviour)
        rule.change(settings)
        self._rules[path] = rule
