"""What was given: options of the command line, over variables of the environment, over the settings file."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from sendonce.config.catalogue import POLICY_OPTION, POLICY_VARIABLE, TABLES, check_variable, suggestion
from sendonce.config.types import NAMED, Setting, Source, Wrong
from sendonce.errors import ConfigError
from sendonce.store.urls import DEFAULT_DATABASE

DEFAULT_FILE = "sendonce.toml"
VARIABLE = "SENDONCE_CONFIG"
_HEAD = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")


def find(given: str | None, environment: Mapping[str, str]) -> Path | None:
    """The settings file to read, if there is one: the one that is named, else of SENDONCE_CONFIG, else ours here."""
    if named := given or environment.get(VARIABLE):
        return Path(named)
    default = Path(DEFAULT_FILE)
    return default if default.is_file() else None


def read(path: Path) -> str:
    """The text of a settings file; ConfigError says why there is none."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no settings file {path}") from None
    except OSError as error:
        raise ConfigError(f"the settings file {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"the settings file {path} is not UTF-8 text") from None


def parse(label: str, text: str) -> dict[str, object]:
    """The tables of the text; ConfigError when it is not TOML."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{label} is not TOML: {error}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{label} cannot be read: a number in it is too large, or it is nested too deeply") from None
    check_numbers(label, tables)
    return tables


def check_numbers(label: str, value: object) -> None:
    """Raise ConfigError for whole numbers of more than 64 bits: TOML has none, and nothing here could show them."""
    if any(isinstance(each, int) and abs(each) >= 2**63 for each in _values_in(value)):
        raise ConfigError(f"{label} cannot be read: a number in it is too large")


def names_in(value: object) -> set[str]:
    """The variables that are named in it as { env = "NAME" }."""
    named = (each.get("env") for each in _values_in(value) if isinstance(each, dict))
    return {each for each in named if isinstance(each, str)}


def lines_of(text: str) -> dict[tuple[str, str], int]:
    """The line of each key on a line of its own, by table and key; not of one that seems to stand twice."""
    found: dict[tuple[str, str], int] = {}
    twice: set[tuple[str, str]] = set()
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := _HEAD.fullmatch(line):
            table = head[1].replace(" ", "").replace('"', "").replace("'", "")
        elif key := _KEY.match(line):
            twice |= {(table, key[1])} & found.keys()
            found[table, key[1]] = number
    return {place: number for place, number in found.items() if place not in twice}


def _values_in(value: object) -> Iterator[object]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


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
        """Name where a refused value stands: the key that the error names first, else the table."""
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


Options = Mapping[str, object]


class Everything:
    """The tables, each looked at when it is asked for. Options are given by their names: `--lease`."""

    def __init__(self, path: Path | None, environment: Mapping[str, str], options: Options) -> None:
        label = DEFAULT_FILE if path is None else str(path)
        text = "" if path is None else read(path)
        self._tables = parse(label, text)
        self._lines = lines_of(text)
        self._source = Source(label, Path() if path is None else path.parent, environment)
        self._options = options
        for name in self._tables:
            if name not in TABLES:
                raise ConfigError(f"{label}: there is no table [{name}]; {suggestion(name, tuple(TABLES))}")
        for name in sorted(environment.keys() - names_in(self._tables)):
            check_variable(name)

    def __contains__(self, name: str) -> bool:
        """True when the file has the table, however empty."""
        return name in self._tables

    def table(self, name: str) -> Table:
        """One table; an empty one when nothing was given for it."""
        known = TABLES[name]
        own = {key: value for key, value in self._values(name).items() if not _is_inner(name, key, value)}
        given = self._written(name, own, known)
        if name == "policy":
            given |= self._policy(POLICY_VARIABLE, self._source.environment.get(POLICY_VARIABLE))
        given |= self._variables(known)
        if name == "policy":
            given |= self._policy(POLICY_OPTION, self._options.get(POLICY_OPTION))
        given |= self._optional(known)
        return Table(name, self._label(name), known, given, self._source)

    def inner(self, name: str) -> list[Table]:
        """The tables within a table, as in [http.shop]; of [policy], those of channels."""
        found = []
        for each, values in self._values(name).items():
            if not _is_inner(name, each, values):
                continue
            if not isinstance(values, dict):
                raise ConfigError(
                    f"{self._source.label}: [{name}] needs a name of yours: write [{name}.NAME] above {each}"
                )
            inner = f"{name}.{each}"
            given = self._written(inner, values, TABLES[name])
            found.append(Table(inner, self._label(inner), TABLES[name], given, self._source))
        return found

    def _label(self, name: str) -> str:
        return f"{self._source.label}: [{name}]"

    def _values(self, name: str) -> Mapping[str, object]:
        values = self._tables.get(name, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{self._source.label}: {name} must be a table: write [{name}] above its keys")
        return values

    def _written(self, name: str, values: Mapping[str, object], known: Mapping[str, Setting]) -> dict[str, Given]:
        found = {}
        for key, value in values.items():
            if key not in known:
                hint = suggestion(key, tuple(known))
                raise ConfigError(f"{self._source.label}: there is no key {key!r} in [{name}]; {hint}")
            line = self._lines.get((name, key))
            origin = self._source.label if line is None else f"{self._source.label} line {line}"
            found[key] = Given(value, f"{self._label(name)} {key}", origin)
        return found

    def _variables(self, known: Mapping[str, Setting]) -> dict[str, Given]:
        found = {}
        for key, setting in known.items():
            text = self._source.environment.get(setting.environment, "").strip()
            if text:
                _check_text(setting.environment, text)
                found[key] = Given(setting.kind.of_text(text), setting.environment, setting.environment)
        return found

    def _optional(self, known: Mapping[str, Setting]) -> dict[str, Given]:
        found = {}
        for key, setting in known.items():
            value = self._options.get(setting.option)
            if value is not None:
                given = setting.kind.of_text(value) if isinstance(value, str) else value
                found[key] = Given(given, setting.option, setting.option)
        return found

    def _policy(self, label: str, text: object) -> dict[str, Given]:
        """The settings of a policy that was given as a JSON object."""
        if not isinstance(text, str) or not text.strip():
            return {}
        _check_text(label, text)
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise ConfigError(f"{label}: a policy must be a JSON object")
        check_numbers(label, values)
        known = TABLES["policy"]
        for key in values:
            if key not in known:
                raise ConfigError(f"{label}: unknown policy setting {key!r}; {suggestion(key, tuple(known))}")
        return {key: Given(value, f"{label}: {key}", label) for key, value in values.items()}


def _is_inner(name: str, key: str, value: object) -> bool:
    """Whether this is a table within a table, and no value of it."""
    return name in NAMED or (name == "policy" and key not in TABLES[name] and isinstance(value, dict))


def _check_text(name: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(f"{name} is not valid UTF-8 text") from None


def load_database(path: Path | None, environment: Mapping[str, str], options: Options) -> str:
    """The address in its one spelling; ConfigError says where it stands when it is wrong."""
    return database_of(Everything(path, environment, options))


def database_of(everything: Everything) -> str:
    return str(everything.table("database").get("url") or DEFAULT_DATABASE)
