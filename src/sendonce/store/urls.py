"""A database's address: `sqlite:///file`, `sqlite:////absolute/file` or `postgresql://…`, in its one spelling."""

import re
from pathlib import Path

from sendonce.errors import ConfigError

DEFAULT_DATABASE = "sqlite:///sendonce.db"
_SQLITE = "sqlite:///"
_POSTGRES = "postgresql://"
_SHAPES = "write sqlite:///file or postgresql://user@host/database"


def check_url(url: str) -> str:
    """The address in its one spelling; ConfigError says what is wrong with it, and never shows a password."""
    text = url.strip()
    if text.startswith("postgres://"):
        text = _POSTGRES + text.removeprefix("postgres://")
    if text.startswith(_POSTGRES):
        return text
    if text.startswith("sqlite:"):
        if not text.startswith(_SQLITE) or not text.removeprefix(_SQLITE) or "?" in text or "\0" in text:
            raise ConfigError("a SQLite database is sqlite:///file, or sqlite:////absolute/file, without options")
        return text
    scheme, colon, _ = text.partition("://")
    if not colon:
        raise ConfigError(f"the database's address has no scheme; {_SHAPES}")
    if scheme.startswith(("postgresql+", "postgres+", "sqlite+")):
        raise ConfigError(f"the database's address names a driver ({scheme}); {_SHAPES}")
    raise ConfigError(f"sendonce does not run on {scheme!r}; {_SHAPES}")


def is_sqlite(url: str) -> bool:
    return url.startswith(_SQLITE)


def sqlite_path(url: str) -> Path:
    """The file of a SQLite address."""
    return Path(url.removeprefix(_SQLITE))


def display_url(url: str) -> str:
    """The address as it may be shown: without a password, wherever it stands."""
    if is_sqlite(url):
        return url
    return re.sub(r"^(postgresql://[^:/?#@]*):.*@", r"\1@", url).partition("?")[0]
