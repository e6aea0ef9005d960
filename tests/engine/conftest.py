"""The stores' own fixtures: a migrated database of the test's own. `sqlite` is for what no database can change."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from sendonce.store.ports import Store
from tests.store.conftest import database, postgres_template, sqlite_template, store
from tests.store.databases import SqliteDatabase

__all__ = ["database", "postgres_template", "sqlite_template", "store"]


@pytest.fixture
def sqlite(sqlite_template: Path, tmp_path: Path) -> SqliteDatabase:
    path = tmp_path / "own.db"
    shutil.copyfile(sqlite_template, path)
    return SqliteDatabase(path)


@pytest_asyncio.fixture
async def sqlite_store(sqlite: SqliteDatabase) -> AsyncIterator[Store]:
    yield await sqlite.open()
    await sqlite.close()
