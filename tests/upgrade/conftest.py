"""A provider, and databases of the schema before, which a program of that version has made."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provider import Provider
from tests.servers.postgres import Server
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider("--keep", "1000", mail=True) as provider:
        yield provider


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database without tables."""
    if request.param == "sqlite":
        yield SqliteDatabase(tmp_path / "sendonce.db")
        return
    server: Server = request.getfixturevalue("postgres_server")
    name = server.create_database()
    yield PostgresDatabase(server.dsn(name))
    server.drop_database(name)
