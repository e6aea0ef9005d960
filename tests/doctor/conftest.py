"""Databases that something is wrong with: a server of their own, whose settings can be changed, and files."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sendonce.admin.doctor import Diagnosis, Level, Limits, examine
from sendonce.store.postgres import migrate as postgres_migrate
from sendonce.store.sqlite import migrate as sqlite_migrate
from tests.servers.binaries import local_binaries, packaged
from tests.servers.postgres import Server, start
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase

LIMITS = Limits(lease=timedelta(seconds=30), timeout=timedelta(seconds=10), retention={"payloads": timedelta(days=30)})
SETTINGS = {"max_prepared_transactions": "4", "max_connections": "30", "wal_level": "logical"}


def examined(database: Database, limits: Limits = LIMITS) -> dict[str, Diagnosis]:
    """What the doctor says that is not well, by its name."""
    url = database.url  # type: ignore[attr-defined]
    return {each.name: each for each in asyncio.run(examine(url, limits)) if each.level is not Level.OK}


@dataclass(frozen=True, slots=True)
class Own:
    """A database on a server whose settings may be changed."""

    server: Server
    database: PostgresDatabase

    def set(self, name: str, value: str) -> None:
        """For the whole server, at once."""
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            connection.execute(f"alter system set {name} = {value}".encode())
            connection.execute("select pg_reload_conf()")


@pytest.fixture(scope="session")
def own_server() -> Iterator[tuple[Server, str]]:
    """A careful server, and a migrated database on it to copy."""
    server = start(local_binaries() or packaged(16), durable=True, settings=SETTINGS)
    try:
        name = server.create_database()
        asyncio.run(postgres_migrate.migrate(server.dsn(name)))
        yield server, name
    finally:
        server.stop()


@pytest.fixture
def own(own_server: tuple[Server, str]) -> Iterator[Own]:
    server, template = own_server
    name = server.create_database(template=template)
    yield Own(server, PostgresDatabase(server.dsn(name)))
    server.drop_database(name)
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("alter system reset all")
        connection.execute("select pg_reload_conf()")


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("doctor") / "migrated.db"
    asyncio.run(sqlite_migrate.migrate(f"sqlite:///{path}"))
    return path


@pytest.fixture
def file(migrated_file: Path, tmp_path: Path) -> SqliteDatabase:
    shutil.copy(migrated_file, tmp_path / "sendonce.db")
    return SqliteDatabase(tmp_path / "sendonce.db")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Any:
    """One of each."""
    if request.param == "sqlite":
        return request.getfixturevalue("file")
    return request.getfixturevalue("own").database
