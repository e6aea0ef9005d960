"""Empty databases with our tables, and a caller on each kind of connection."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.outbox.callers import POSTGRES, SQLITE, Caller, Opener
from tests.outbox.databases import Address, empty_postgres, fill_postgres, new_sqlite
from tests.servers.postgres import Server

SQLITE_KINDS = [pytest.param((opener, "sqlite"), id=f"sqlite-{name}") for name, opener in SQLITE.items()]
POSTGRES_KINDS = [
    pytest.param((opener, "postgres"), id=f"postgres-{name}", marks=pytest.mark.postgres)
    for name, opener in POSTGRES.items()
]
DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: Server) -> Iterator[Address]:
    """One database for all tests of this process: making one for each would take longer than all the tests."""
    name = postgres_server.create_database()
    fill_postgres(postgres_server.dsn(name))
    yield Address(postgres_server.dsn(name), "postgresql")
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_address(migrated_postgres: Address) -> Address:
    empty_postgres(migrated_postgres)
    return migrated_postgres


@pytest.fixture
def sqlite_address(tmp_path: Path) -> Address:
    return new_sqlite(tmp_path)


@dataclass(frozen=True)
class Kind:
    """How to open one kind of connection, and a database for it."""

    open: Opener
    address: Address


@pytest.fixture(params=[*SQLITE_KINDS, *POSTGRES_KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    opener, database = request.param
    return Kind(opener, request.getfixturevalue(f"{database}_address"))


@pytest.fixture(params=DATABASES)
def address(request: pytest.FixtureRequest) -> Address:
    """An empty database of each make."""
    address: Address = request.getfixturevalue(f"{request.param}_address")
    return address


@pytest.fixture
async def caller(kind: Kind) -> AsyncIterator[Caller]:
    async with kind.open(kind.address) as caller:
        yield caller
