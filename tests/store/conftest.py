"""The same contract on both databases."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from sendonce.store.ports import Store
from sendonce.store.postgres import migrate as postgres_migrate
from sendonce.store.sqlite import migrate as sqlite_migrate
from tests.servers.postgres import Server
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "migrated.db"
    asyncio.run(sqlite_migrate.migrate(f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres_server: Server) -> Iterator[str]:
    name = postgres_server.create_database()
    asyncio.run(postgres_migrate.migrate(postgres_server.dsn(name)))
    yield name
    postgres_server.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A migrated database of the test's own."""
    if request.param == "sqlite":
        path = tmp_path / "sendonce.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        yield SqliteDatabase(path)
        return
    server: Server = request.getfixturevalue("postgres_server")
    name = server.create_database(template=request.getfixturevalue("postgres_template"))
    yield PostgresDatabase(server.dsn(name))
    server.drop_database(name)


@pytest_asyncio.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    yield await database.open()
    await database.close()
