"""One table of the settings file: every value is checked, every mistake is one sentence that says where."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from sendonce.domain.durations import parse_duration
from sendonce.domain.policies import DEFAULT_POLICY, override
from sendonce.errors import ConfigError

SECRET_FILE_CAP = 1_000_000


@dataclass(frozen=True, slots=True, repr=False)
class Source:
    """Where settings come from. Files that they name are looked for beside the settings file."""

    label: str
    folder: Path
    environment: Mapping[str, str]


class _Placed(ConfigError):
    """One that says already where it stands."""


class Table:
    """The values of one table. Reading never shows a value that may be secret."""

    def __init__(self, source: Source, name: str, values: Mapping[str, object], known: Sequence[str]) -> None:
        self._source = source
        self._name = name
        self._values = values
        for key in values:
            if key not in known:
                raise _Placed(f"{source.label}: there is no key {key!r} in {name}; {suggestion(key, known)}")

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raise ConfigError for one key, saying what it must be."""
        raise _Placed(f"{self._source.label}: {self._name} {key} {why}")

    @contextmanager
    def reading(self, key: str = "") -> Iterator[None]:
        """Say where a value stands that somebody else finds wrong; without a key, which table it is."""
        try:
            yield
        except _Placed:
            raise
        except ConfigError as error:
            said = str(error).removeprefix(f"{self._name} ")
            raise _Placed(f"{self._source.label}: {self._name}{key and ' '}{key}: {said}") from None

    def text(self, key: str) -> str | None:
        """A text, if there is one."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            self.refuse(key, "must be a text")
        return value

    def needed(self, key: str) -> str:
        """A text that cannot be left out."""
        return self.text(key) or self.refuse(key, "is missing")

    def choice(self, key: str, among: Sequence[str], default: str) -> str:
        value = self._values.get(key, default)
        if value not in among:
            self.refuse(key, f"must be one of {', '.join(among)}, not {value!r}")
        return str(value)

    def flag(self, key: str) -> bool | None:
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            self.refuse(key, "must be true or false")
        return value

    def whole(self, key: str, *, least: int, most: int) -> int | None:
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.refuse(key, f"must be a whole number between {least} and {most}, not {value!r}")
        return value

    def duration(self, key: str) -> timedelta | None:
        value = self._values.get(key)
        try:
            return None if value is None else parse_duration(value)
        except ValueError:
            self.refuse(key, f'must be a time like "30s", "5m" or "2h", not {value!r}')

    def texts(self, key: str) -> list[str]:
        """A list of texts; one alone may stand without brackets."""
        value = self._values.get(key, [])
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            self.refuse(key, "must be a list of texts")
        return found

    def secret(self, key: str) -> str | None:
        """A secret, if there is one: a text, { env = "NAME" } or { file = "path" }."""
        value = self._values.get(key)
        return None if value is None else self._secret(key, value)

    def needed_secret(self, key: str) -> str:
        return self.secret(key) or self.refuse(key, 'is missing; write a text, { env = "NAME" } or { file = "path" }')

    def secrets(self, key: str) -> list[str]:
        """A list of secrets, each in any of the three spellings."""
        value = self._values.get(key, [])
        return [self._secret(key, each) for each in (value if isinstance(value, list) else [value])]

    def file(self, key: str) -> str | None:
        """The path of a file that is there: { file = "path" }."""
        match self._values.get(key):
            case None:
                return None
            case {"file": str(path), **rest} if not rest:
                self._content(key, path)
                return str(self._source.folder / path)
        return self.refuse(key, 'must be { file = "path" }')

    def headers(self, key: str) -> dict[str, str]:
        """Names and values; a value may be secret."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, 'must be names and values, like { X-Team = "shop" }')
        return {name: self._secret(key, each) for name, each in value.items()}

    def policy(self, key: str = "policy") -> Mapping[str, object]:
        """Settings of a policy, checked."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, "must be settings of a policy, like { max_attempts = 5 }")
        with self.reading(key):
            override(DEFAULT_POLICY, value)
        return value

    def _secret(self, key: str, value: object) -> str:
        match value:
            case str() if value.strip():
                return value
            case {"env": str(name), **rest} if not rest:
                found = self._source.environment.get(name, "").strip()
                return found or self.refuse(key, f"is to come from the environment, but {name} is not set")
            case {"file": str(path), **rest} if not rest:
                return self._content(key, path)
        return self.refuse(key, 'must be a text, { env = "NAME" } or { file = "path" }')

    def _content(self, key: str, path: str) -> str:
        try:
            with open(self._source.folder / path, encoding="utf-8") as file:
                found = file.read(SECRET_FILE_CAP).strip()
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "not UTF-8 text"
            self.refuse(key, f"is to come from the file {path}, which cannot be read ({why})")
        return found or self.refuse(key, f"is to come from the file {path}, which is empty")


def suggestion(word: str, known: Sequence[str]) -> str:
    """What was meant, or what there is."""
    if close := get_close_matches(word, known, n=1):
        return f"do you mean {close[0]}?"
    return f"there are: {', '.join(known)}"
