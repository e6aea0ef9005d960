import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.attack.dns import NameServer, name_server
from tests.store.conftest import database, postgres_template, sqlite_template
from tests.store.databases import SqliteDatabase

__all__ = ["database", "postgres_template", "sqlite_template"]


@pytest.fixture
def sqlite(sqlite_template: Path, tmp_path: Path) -> SqliteDatabase:
    """A migrated file of the test's own."""
    path = tmp_path / "sendonce.db"
    shutil.copyfile(sqlite_template, path)
    return SqliteDatabase(path)


@pytest_asyncio.fixture
async def names() -> AsyncIterator[NameServer]:
    """A name server to give to a client. Without a word from the test no name exists."""
    async with name_server() as server:
        yield server


@pytest_asyncio.fixture
async def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every address that is dialled on this test's loop, as it is dialled; it is dialled all the same."""
    loop, seen = asyncio.get_running_loop(), list[str]()
    real = loop.sock_connect

    async def noting(sock: Any, address: Any) -> None:
        seen.append(str(address[0]))
        await real(sock, address)

    monkeypatch.setattr(loop, "sock_connect", noting)
    return seen
