"""What only PostgreSQL has: roles, plans, versions, pooling, durability. Here `database` is a PostgreSQL."""

from collections.abc import Iterator

import pytest

from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase


@pytest.fixture
def database(postgres_server: Server, postgres_template: str) -> Iterator[PostgresDatabase]:
    """A migrated database of the test's own."""
    name = postgres_server.create_database(template=postgres_template)
    yield PostgresDatabase(postgres_server.dsn(name))
    postgres_server.drop_database(name)
