"""The stores' own databases, one provider process for many tests, and a scene for each."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.scene import Scene
from tests.conformance.webhooking import Tenant, Webhooks, serving
from tests.given import given_event
from tests.provider import Provider
from tests.servers.postgres import Server
from tests.store.conftest import database, postgres_template, sqlite_template
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase
from tests.store.postgres.roles import Roles, granted_roles
from tests.store.seeding import seed_subscriptions

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


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def webhooks(
    request: pytest.FixtureRequest, shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Webhooks]:
    """The webhook application on an empty database, for all tests of a file."""
    folder = tmp_path_factory.mktemp("webhooks")
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    with serving(server, shared_provider, folder) as webhooks:
        yield webhooks


@pytest.fixture
def tenant(webhooks: Webhooks) -> Tenant:
    return webhooks.tenant()


@pytest.fixture(scope="module")
def roles(postgres_server: Server, postgres_template: str) -> Iterator[Roles]:
    with granted_roles(postgres_server, postgres_template) as roles:
        yield roles


@pytest.fixture
def saga(roles: Roles) -> Iterator[PostgresDatabase]:
    """A database with the rights granted, and one saga."""
    with roles.database() as database:
        seed_subscriptions(database, 1)
        given_event(database, type="order.paid", tenant="acme")
        yield database
