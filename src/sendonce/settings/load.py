"""Read the settings file: `--config`, else SENDONCE_CONFIG, else ./sendonce.toml where there is one."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from sendonce.errors import ConfigError
from sendonce.sealing import Sealer
from sendonce.settings import tables
from sendonce.settings.model import Settings
from sendonce.settings.values import Source, Table, suggestion

DEFAULT_FILE = "sendonce.toml"
VARIABLE = "SENDONCE_CONFIG"


def find(given: str | None, environment: Mapping[str, str]) -> Path | None:
    """The settings file to read, if there is one."""
    if named := given or environment.get(VARIABLE):
        return Path(named)
    default = Path(DEFAULT_FILE)
    return default if default.is_file() else None


def load(path: Path | None, environment: Mapping[str, str]) -> Settings:
    """Everything, checked; ConfigError names the file and the key that is wrong, and never shows a secret."""
    file = _File(path, environment)
    return Settings(
        guard=tables.guard(file.table("network"), environment),
        sealer=tables.sealer(file.table("secrets"), environment),
        webhook_secret=tables.webhook_secret(file.table("webhooks")),
        profiles=tables.profiles(file.inner("http")),
        mail=tables.mail(file, environment),
        apprise=tuple(tables.apprise(name, table) for name, table in file.inner("apprise")),
        alerts=tables.alerts(file.table("alerts")),
    )


def load_sealer(path: Path | None, environment: Mapping[str, str]) -> Sealer:
    """What seals secrets, and nothing else of the file: for commands that send nothing."""
    return tables.sealer(_File(path, environment).table("secrets"), environment)


class _File:
    """The tables of the file, each looked at when it is asked for."""

    def __init__(self, path: Path | None, environment: Mapping[str, str]) -> None:
        folder = Path() if path is None else path.parent
        self._source = Source(DEFAULT_FILE if path is None else str(path), folder, environment)
        self._tables = {} if path is None else _parsed(path)
        for name in self._tables:
            if name not in tables.KEYS:
                raise ConfigError(f"{path}: there is no table [{name}]; {suggestion(name, tuple(tables.KEYS))}")

    def __contains__(self, name: str) -> bool:
        return name in self._tables

    def table(self, name: str) -> Table:
        """One table; an empty one when it is not there."""
        return Table(self._source, f"[{name}]", self._values(name), tables.KEYS[name])

    def inner(self, name: str) -> list[tuple[str, Table]]:
        """The tables within a table, as in [http.shop], by name."""
        found = []
        for each, values in self._values(name).items():
            if not isinstance(values, dict):
                raise ConfigError(
                    f"{self._source.label}: [{name}] needs a name of yours: write [{name}.NAME] above {each}"
                )
            found.append((each, Table(self._source, f"[{name}.{each}]", values, tables.KEYS[name])))
        return found

    def _values(self, name: str) -> Mapping[str, object]:
        values = self._tables.get(name, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{self._source.label}: {name} must be a table: write [{name}] above its keys")
        return values


def _parsed(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no settings file {path}") from None
    except OSError as error:
        raise ConfigError(f"the settings file {path} cannot be read: {error.strerror}") from None
    except UnicodeError:
        raise ConfigError(f"the settings file {path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
