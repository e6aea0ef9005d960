"""The values that were given for one table: checked when they are read, and every mistake is one sentence."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from sendonce.config.kinds import Source, Wrong
from sendonce.config.setting import Setting
from sendonce.errors import ConfigError

_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True, repr=False)
class Given:
    """One value as it was given. `label` is what a sentence about it begins with; `origin`, where it came from."""

    value: object
    label: str
    origin: str


class _Placed(ConfigError):
    """One that says already where it stands."""


class Table:
    """The values of one table, the nearest ones: of options, else of variables, else of the file."""

    def __init__(
        self, name: str, label: str, settings: Mapping[str, Setting], given: Mapping[str, Given], source: Source
    ) -> None:
        self.name = name
        self.given = given
        self.settings = settings
        self._label = label
        self._source = source

    def get(self, key: str) -> Any:
        """The value, checked; None when none was given."""
        given, kind = self.given.get(key), self.settings[key].kind
        if given is None:
            return None
        try:
            return kind.read(given.value, self._source)
        except Wrong as wrong:
            raise _Placed(f"{given.label} {wrong}") from None
        except ValueError:
            but = "" if kind.is_secret else f", not {_shown(given.value)}"
            raise _Placed(f"{given.label} must be {kind.wanted}{but}") from None

    def needed(self, key: str) -> Any:
        """The value of a key that cannot be left out."""
        setting, value = self.settings[key], self.get(key)
        if value is None:
            variable = f", or set {setting.environment}" if setting.environment else ""
            self.refuse(key, f"is missing; write {key} = {setting.example}{variable}")
        return value

    def values(self) -> dict[str, Any]:
        """All that were given, by the names that their part has for them: for the others its own defaults hold."""
        return {(self.settings[key].field or key): self.get(key) for key in self.given}

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raise ConfigError for one key, saying where it stands and what is wrong with it."""
        given = self.given.get(key)
        raise _Placed(f"{given.label if given else f'{self._label} {key}'} {why}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Say where values stand that their part finds wrong: the key that it names first, else the table."""
        try:
            yield
        except _Placed:
            raise
        except ConfigError as error:
            said = str(error).removeprefix(f"[{self.name}] ").removeprefix(f"{self.name} ")
            key, _, rest = said.partition(" ")
            if key in self.given and key in self.settings:
                self.refuse(key, rest)
            raise _Placed(f"{self._place()}: {said}") from None

    def _place(self) -> str:
        """The table in the file, or the options and variables alone where nothing stands there."""
        labels = [given.label for given in self.given.values()]
        elsewhere = [each for each in labels if not each.startswith(self._label)]
        return ", ".join(elsewhere) if elsewhere and len(elsewhere) == len(labels) else self._label


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
