"""The composition root: builds concrete stores and connections from a database's address.

An address is `sqlite:///file`, `sqlite:////absolute/file` or `postgresql://…`. Drivers are imported here only when they
are needed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from sendonce.errors import ConfigError, StoreBusy, StoreError
from sendonce.store.migrations import Told, silent
from sendonce.store.urls import DEFAULT_DATABASE
from sendonce.store.urls import check_url as check_url
from sendonce.store.urls import display_url as display_url
from sendonce.store.urls import is_sqlite as is_sqlite
from sendonce.store.urls import sqlite_path as sqlite_path

if TYPE_CHECKING:
    import sqlite3

    import psycopg

    from sendonce.store.examining import ExaminedPostgres, ExaminedSqlite
    from sendonce.store.ports import Notifier, Store


class _Migrator(Protocol):
    async def migrate(self, url: str, told: Told = ...) -> list[str]: ...

    async def schema_version(self, url: str) -> int: ...

    def sql(self, from_version: int = 0) -> str: ...


def is_missing(url: str) -> bool:
    """True for the address of a SQLite file that is not there."""
    return is_sqlite(url) and not os.path.exists(sqlite_path(url))


async def open_store(url: str, *, writes: bool = False) -> "Store":
    """Open an existing database; StoreError, SchemaMismatch or StoreBusy says in one sentence why that cannot be.

    `writes`: only where it can be written to, as a worker needs it; a standby will do for who reads.
    """
    url = check_url(url)
    if is_sqlite(url):
        _require_file(url)
        from sendonce.store.sqlite.store import SqliteStore

        return await SqliteStore.connect(url)
    _require_psycopg(url)
    from sendonce.store.postgres.store import PostgresStore

    return await PostgresStore.connect(url, writes=writes)


def open_notifier(url: str) -> "Notifier":
    """What waits for publishers' announcements; ConfigError on a database that has none."""
    url = check_url(url)
    if is_sqlite(url):
        raise ConfigError("SQLite cannot announce new work; leave --notify out, the worker polls")
    _require_psycopg(url)
    from sendonce.store.postgres.notify import PostgresNotifier

    return PostgresNotifier(url)


def migrate(url: str, told: Told = silent) -> list[str]:
    """Bring a database to the newest schema and fill in what that needs; the names of what was applied now.

    Programs of the version before go on meanwhile. `told` is called with whom it waits for and how far it has come.
    In an event loop it is `await amigrate(…)`.
    """
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(amigrate(url, told))
    raise ConfigError("an event loop runs here, and migrate would hold it up; write: await sendonce.amigrate(…)")


async def amigrate(url: str, told: Told = silent) -> list[str]:
    """`migrate` within an event loop."""
    url = check_url(url)
    if is_sqlite(url):
        _require_folder(url)
    return await _migrator(url).migrate(url, told)


async def schema_version(url: str) -> int:
    """The number of a database's schema; 0 when it has none, or when there is no such SQLite file."""
    url = check_url(url)
    if is_missing(url):
        return 0
    return await _migrator(url).schema_version(url)


async def examine(url: str) -> "ExaminedSqlite | ExaminedPostgres":
    """Look at a database and its surroundings, whatever its schema."""
    url = check_url(url)
    if is_sqlite(url):
        _require_file(url)
        from sendonce.store.sqlite import doctor as sqlite_doctor

        return await sqlite_doctor.examine(url)
    _require_psycopg(url)
    from sendonce.store.postgres import doctor as postgres_doctor

    return await postgres_doctor.examine(url)


def migration_sql(url: str, from_version: int = 0) -> str:
    """The migrations above a version as one script for other tools. Touches nothing."""
    return _migrator(check_url(url)).sql(from_version)


def grants_sql() -> str:
    """The roles with the least rights, as a script for PostgreSQL."""
    from sendonce.store.postgres import grants

    return grants.sql()


@contextmanager
def open_connection(url: str) -> "Iterator[sqlite3.Connection | psycopg.Connection]":
    """A plain connection in one transaction: committed at the end, rolled back by an exception."""
    url = check_url(url)
    if is_sqlite(url):
        with _sqlite_connection(url) as connection:
            yield connection
    else:
        with _postgres_connection(url) as connection:
            yield connection


@contextmanager
def _sqlite_connection(url: str) -> "Iterator[sqlite3.Connection]":
    from contextlib import closing

    from sendonce.store.sqlite.connection import open_file, parse_url, translated

    _require_file(url)
    with translated(), closing(open_file(parse_url(url))) as connection:
        connection.execute("begin immediate")
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        connection.commit()


@contextmanager
def _postgres_connection(url: str) -> "Iterator[psycopg.Connection]":
    _require_psycopg(url)
    import psycopg

    try:
        with psycopg.connect(
            url, connect_timeout=10, application_name="sendonce", prepare_threshold=None, client_encoding="UTF8"
        ) as connection:
            yield connection
    except psycopg.OperationalError as error:
        from sendonce.store.postgres.connection import cause_of

        raise StoreBusy(f"PostgreSQL cannot answer now ({cause_of(error)})") from None
    except psycopg.Error as error:
        raise StoreError(f"PostgreSQL refused it ({error.diag.message_primary or type(error).__name__})") from None


def _migrator(url: str) -> _Migrator:
    return cast(_Migrator, _room(url))


def _room(url: str) -> ModuleType:
    if is_sqlite(url):
        return import_module("sendonce.store.sqlite.migrate")
    _require_psycopg(url)
    return import_module("sendonce.store.postgres.migrate")


def _require_psycopg(url: str) -> None:
    """The driver, and an address that it can read."""
    if find_spec("psycopg") is None:
        raise ConfigError("PostgreSQL needs: pip install 'sendonce[postgres]'")
    check_readable(url)


def check_readable(url: str) -> None:
    """ConfigError for an address that the driver, where it is installed, cannot read."""
    if is_sqlite(url) or find_spec("psycopg") is None or _is_readable(url):
        return
    before, _, options = url.partition("?")
    if "@" not in options and _is_readable(before):  # else the ? may be a password's
        raise ConfigError(
            "the database's address has an option after its ? that PostgreSQL does not know or cannot read; libpq's"
            " manual lists them: sslmode, connect_timeout, options …"
        )
    raise ConfigError(
        "the database's address cannot be read; write postgresql://user:password@host:5432/name, with what is"
        " special in a password as %40 (@), %2F (/), %3A (:)"
    )


def _is_readable(url: str) -> bool:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:  # its message repeats the address, password and all
        return False
    host, port = str(parts.get("host") or ""), str(parts.get("port") or "")
    # A password with an @ or a / in it reads like a host or a port, which errors would show.
    return "@" not in host[1:] and all(each.isdecimal() for each in port.split(",") if each)


def _require_file(url: str) -> None:
    path = sqlite_path(url)
    if os.path.isdir(path):
        raise StoreError(f"{path} is a folder, not a database")
    if is_missing(url):
        named = "" if url == DEFAULT_DATABASE else f" --database {url}"
        raise StoreError(f"there is no sendonce database at {path}; run: sendonce migrate{named}")


def _require_folder(url: str) -> None:
    path = sqlite_path(url)
    if os.path.isdir(path):
        raise StoreError(f"{path} is a folder, not a database")
    if not os.path.isdir(path.parent):
        raise StoreError(f"there is no folder {path.parent} to make the database in")
