"""A caller's connection of every kind that a test outbox works on, in a transaction that is never committed."""

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.outbox.callers import POSTGRES, SQLITE, Caller
from tests.outbox.databases import OWN_TABLE, Address, sqlite_connection
from tests.servers.postgres import Server

OPENERS = {**SQLITE, **POSTGRES}
ALL = [
    *(pytest.param((kind, "sqlite"), id=f"sqlite-{kind}") for kind in SQLITE),
    *(pytest.param((kind, "postgres"), id=f"postgres-{kind}", marks=pytest.mark.postgres) for kind in POSTGRES),
]


@pytest.fixture(scope="session")
def without_tables(postgres_server: Server) -> Iterator[Address]:
    """A database in which nothing is ever committed: all tests share it, and each finds it as the first one did."""
    name = postgres_server.create_database()
    with psycopg.connect(postgres_server.dsn(name)) as connection:
        connection.execute(OWN_TABLE.encode())
    yield Address(postgres_server.dsn(name), "postgresql")
    postgres_server.drop_database(name)


def without_tables_in(folder: Path) -> Address:
    address = Address(f"sqlite:///{folder / 'caller.sqlite'}", "sqlite")
    with closing(sqlite_connection(address)) as connection:
        connection.executescript(OWN_TABLE)
    return address


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    """A database of each make that has the caller's own table and none of ours."""
    if request.param == "sqlite":
        return without_tables_in(tmp_path)
    shared: Address = request.getfixturevalue("without_tables")
    return shared


@pytest.fixture
def connection(address: Address) -> Iterator[Any]:
    """A plain connection, sqlite3 or psycopg, that is rolled back at the end."""
    opened: Any = sqlite_connection(address) if address.dialect == "sqlite" else psycopg.connect(address.url)
    with closing(opened):
        yield opened
        opened.rollback()


@pytest.fixture(params=ALL)
async def caller(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Caller]:
    """The caller of each kind of connection."""
    kind, database = request.param
    address = without_tables_in(tmp_path) if database == "sqlite" else request.getfixturevalue("without_tables")
    async with OPENERS[kind](address) as caller:
        yield caller
        await caller.end("rollback")
    assert address.look("select count(*) from memos") == [(0,)]
