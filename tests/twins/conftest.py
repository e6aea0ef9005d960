"""A PostgreSQL database that follows, made once."""

from collections.abc import Iterator

import pytest

from tests.servers.postgres import Server
from tests.simulation.database import EPOCH_SECONDS
from tests.twins.follower import Follower, prepare


@pytest.fixture(scope="session")
def follower(postgres_server: Server) -> Iterator[Follower]:
    name = postgres_server.create_database()
    prepare(postgres_server.dsn(name), EPOCH_SECONDS * 1_000_000)
    follower = Follower(postgres_server.dsn(name))
    yield follower
    follower.close()
    postgres_server.drop_database(name)
