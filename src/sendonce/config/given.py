"""Everything that was given: options of the command line, over variables of the environment, over the settings file."""

import json
from collections.abc import Mapping
from pathlib import Path

from sendonce.config import files
from sendonce.config.catalogue import POLICY_OPTION, POLICY_VARIABLE, TABLES, check_variable, suggestion
from sendonce.config.kinds import Source
from sendonce.config.setting import NAMED, Setting
from sendonce.config.values import Given, Table
from sendonce.errors import ConfigError

Options = Mapping[str, object]


class Everything:
    """The tables, each looked at when it is asked for. Options are given by their names: `--lease`."""

    def __init__(self, path: Path | None, environment: Mapping[str, str], options: Options) -> None:
        label = files.DEFAULT_FILE if path is None else str(path)
        text = "" if path is None else files.read(path)
        self._tables = files.parse(label, text)
        self._lines = files.lines_of(text)
        self._source = Source(label, Path() if path is None else path.parent, environment)
        self._options = options
        for name in self._tables:
            if name not in TABLES:
                raise ConfigError(f"{label}: there is no table [{name}]; {suggestion(name, tuple(TABLES))}")
        for name in sorted(environment.keys() - files.names_in(self._tables)):
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
        files.check_numbers(label, values)
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
