"""Which behaviour a request meets: that of the longest beginning of its path, and how often each rule has been met."""

from collections import Counter
from collections.abc import Mapping

from sendonce.devtools.receive.behaviour import NAMES, WELL, Behaviour, When, changed


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
