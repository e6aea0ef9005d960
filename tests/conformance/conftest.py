"""The stores' own databases, one provider process for many tests, and a scene for each."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.scene import Scene
from tests.provider import Provider
from tests.servers.postgres import Server
from tests.stores.conftest import database, postgres_template, sqlite_template
from tests.stores.databases import Database, PostgresDatabase, SqliteDatabase

__all__ = ["database", "postgres_template", "sqlite_template"]


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    with Provider("--keep", "1000", mail=True) as provider:
        yield provider


@pytest.fixture
def scene(database: Database, shared_provider: Provider, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(database, shared_provider, tmp_path)
    yield made
    made.leave()


@pytest.fixture
def backup_of(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Database], Database]]:
    """Makes a copy of a database as it is now, which nobody may be using."""
    copies: list[tuple[Server, str]] = []

    def copy(database: Database) -> Database:
        if isinstance(database, SqliteDatabase):
            return SqliteDatabase(Path(shutil.copy(database.path, tmp_path / "backup.db")))
        assert isinstance(database, PostgresDatabase)
        server: Server = request.getfixturevalue("postgres_server")
        name = server.create_database(template=database.url.rpartition("/")[2].partition("?")[0])
        copies.append((server, name))
        return PostgresDatabase(server.dsn(name))

    yield copy
    for server, name in copies:
        server.drop_database(name)
