"""Places at real brokers, and databases."""

from pathlib import Path

import pytest
import pytest_asyncio

from tests.consumer.brokers import KINDS, KafkaPlace, Place
from tests.consumer.working import Bank, new_bank

ALL_BUT_ONE_LATER = ["nats", *[pytest.param(each, marks=pytest.mark.more) for each in ("amqp", "redis", "kafka")]]


def place_of(kind: str, request: pytest.FixtureRequest) -> Place:
    """A new place at a broker of this kind."""
    if kind == "kafka":
        cluster = request.getfixturevalue("kafka_cluster")
        return KafkaPlace(cluster.bootstrap, cluster=cluster)
    return KINDS[kind](request.getfixturevalue({"amqp": "rabbitmq_url"}.get(kind, f"{kind}_url")))


@pytest_asyncio.fixture(params=list(KINDS))
async def place(request: pytest.FixtureRequest) -> Place:
    """A place at each kind of broker in turn."""
    found = place_of(request.param, request)
    await found.make()
    return found


@pytest_asyncio.fixture(params=ALL_BUT_ONE_LATER)
async def stream(request: pytest.FixtureRequest) -> Place:
    """A place at JetStream; with the full matrix at each kind of broker in turn."""
    found = place_of(request.param, request)
    await found.make()
    return found


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Bank:
    """A database with one account, of each kind in turn."""
    made = new_bank(request.param, tmp_path, request)
    await made.make()
    return made
