"""PostgreSQL servers for the tests that ask for one, started when first asked for and shared by all."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.budgets import over_budget, seconds_by_suite
from tests.servers.binaries import binaries_of
from tests.servers.daemons import left_running
from tests.servers.os_users import FOLDER
from tests.servers.postgres import Server, default_server, start
from tests.servers.runs import Run, shared, shared_server

if TYPE_CHECKING:
    from tests.servers.kafka import Kafka

# What `make test` chooses.
NORMALLY = "not soak and not more and not matrix"
RUN = pytest.StashKey[Run]()
SERVER_FIXTURES = {"postgres_server", "server_of"}

# The receivers of the tests are on this machine, which is closed to workers otherwise.
os.environ["SENDONCE_ALLOW_NETWORKS"] = "127.0.0.0/8,::1/128"

# Commands are run in folders of their own, from where a relative path leads elsewhere.
if "PYTHONPATH" in os.environ:
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, os.environ["PYTHONPATH"].split(os.pathsep)))

# Shared machines stall now and then; pytest's own limit catches what hangs.
settings.register_profile("sendonce", deadline=None, print_blob=True)
settings.load_profile("sendonce")


def pytest_configure(config: pytest.Config) -> None:
    # A shell that runs us in the background has its children ignore interrupts, and so would ours.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # not in the processes that share this run's work
        run = config.stash[RUN] = Run(config.rootpath)
        os.environ[FOLDER] = str(run.folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if run := config.stash.get(RUN, None):
        run.over()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.markexpr == NORMALLY:
        told = [report for each in terminalreporter.stats.values() for report in each]
        for line in over_budget(seconds_by_suite(each for each in told if isinstance(each, pytest.TestReport))):
            terminalreporter.write_line(line)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SERVER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("postgres")
        if item.get_closest_marker("sqlite_later") and "sqlite" in item.name.partition("[")[2]:
            item.add_marker("more")


@pytest.fixture(scope="session")
def postgres_server() -> Server:
    """The run's PostgreSQL. It is shared: make databases on it, but do not stop it."""
    return shared_server("default", default_server)


@pytest.fixture
def pg_dsn(postgres_server: Server) -> Iterator[str]:
    """The address of a new, empty database."""
    name = postgres_server.create_database()
    yield postgres_server.dsn(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def server_of() -> Callable[[int], Server]:
    """The run's server of one major version, shared by all; skips the test when this machine has none."""

    def server(version: int) -> Server:
        try:
            programs = binaries_of(version)
        except LookupError as error:
            pytest.skip(str(error))
        return shared_server(f"postgres-{version}", lambda: start(programs))

    return server


@pytest.fixture(scope="session")
def rabbitmq_url() -> str:
    """The run's RabbitMQ. It is shared: use names of your own, and start a `RabbitMQ` to stop or configure one."""
    from tests.servers.rabbitmq import shared_url

    return shared("rabbitmq", shared_url)


@pytest.fixture(scope="session")
def nats_url() -> str:
    """The run's NATS with JetStream, shared in the same way."""
    from tests.servers.nats import Nats

    return shared("nats", lambda: left_running(Nats()).url)


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The run's Redis, shared in the same way."""
    from tests.servers.redis import Redis

    return shared("redis", lambda: left_running(Redis()).url)


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator["Kafka"]:
    """A mock cluster for the tests of one process; use topics of your own, and start a `Kafka` to break one."""
    from tests.servers.kafka import Kafka

    with Kafka() as cluster:
        yield cluster
