"""A SQLite file of the test's own, and a store on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from sendonce.store.sqlite import migrate as sqlite_migrate
from sendonce.store.sqlite.store import SqliteStore
from tests.store.databases import SqliteDatabase


@pytest_asyncio.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    under_test = SqliteDatabase(tmp_path / "sendonce.db")
    await sqlite_migrate.migrate(under_test.url)
    yield under_test
    await under_test.close()


@pytest_asyncio.fixture
async def store(database: SqliteDatabase) -> SqliteStore:
    opened = await database.open()
    assert isinstance(opened, SqliteStore)
    return opened
