"""The database's address, and nothing else: for commands that need no more of the settings."""

from collections.abc import Mapping
from pathlib import Path

from sendonce.config.given import Everything, Options
from sendonce.store.urls import DEFAULT_DATABASE


def load_database(path: Path | None, environment: Mapping[str, str], options: Options) -> str:
    """The address in its one spelling; ConfigError says where it stands when it is wrong."""
    return database_of(Everything(path, environment, options))


def database_of(everything: Everything) -> str:
    return str(everything.table("database").get("url") or DEFAULT_DATABASE)
