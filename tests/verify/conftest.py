"""Databases in which everything has happened once: made once, and copied for each test."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sendonce.store.ports import Store
from sendonce.store.postgres import migrate as postgres_migrate
from sendonce.store.sqlite import migrate as sqlite_migrate
from tests.servers.postgres import Server
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase
from tests.verify.scene import everything


@dataclass(frozen=True, slots=True)
class Scene:
    """A database, and the deliveries on it by what became of them."""

    database: Database
    ids: dict[str, int]


async def _filled(database: Database) -> dict[str, int]:
    try:
        return await everything(database, await database.open())
    finally:
        await database.close()


@pytest.fixture(scope="session")
def sqlite_scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    path = tmp_path_factory.mktemp("scene") / "scene.db"
    asyncio.run(sqlite_migrate.migrate(f"sqlite:///{path}"))
    return path, asyncio.run(_filled(SqliteDatabase(path)))


@pytest.fixture(scope="session")
def postgres_scene(postgres_server: Server) -> Iterator[tuple[str, dict[str, int]]]:
    name = postgres_server.create_database()
    asyncio.run(postgres_migrate.migrate(postgres_server.dsn(name)))
    yield name, asyncio.run(_filled(PostgresDatabase(postgres_server.dsn(name))))
    postgres_server.drop_database(name)


@pytest.fixture
def on_sqlite(sqlite_scene: tuple[Path, dict[str, int]], tmp_path: Path) -> Scene:
    path = tmp_path / "sendonce.db"
    shutil.copyfile(sqlite_scene[0], path)
    return Scene(SqliteDatabase(path), sqlite_scene[1])


@pytest.fixture
def on_postgres(postgres_scene: tuple[str, dict[str, int]], postgres_server: Server) -> Iterator[Scene]:
    name = postgres_server.create_database(template=postgres_scene[0])
    yield Scene(PostgresDatabase(postgres_server.dsn(name)), postgres_scene[1])
    postgres_server.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def scene(request: pytest.FixtureRequest) -> Any:
    """A copy of the test's own, on each database."""
    return request.getfixturevalue(f"on_{request.param}")


@pytest_asyncio.fixture
async def store(scene: Scene) -> AsyncIterator[Store]:
    yield await scene.database.open()
    await scene.database.close()
