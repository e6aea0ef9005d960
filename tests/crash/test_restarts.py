"""PostgreSQL restarted under load: the worker says so once, waits, and goes on by itself."""

import signal
import time
from collections.abc import Iterator

import pytest

from sendonce.store.postgres import migrate as postgres_migrate
from tests.crash.accounts import all_completed, completed, publish, settle_accounts, worker
from tests.processes import until
from tests.receiver import Receiver
from tests.servers.binaries import local_binaries, packaged
from tests.servers.postgres import Mode, Server, start
from tests.store.databases import PostgresDatabase

AMOUNT = 600
# Standing still for seconds costs no lease.
LEASE_SECONDS = 8
PARTS = ("worker", "results", "lease keeper")


@pytest.fixture
def own_server() -> Iterator[Server]:
    server = start(local_binaries() or packaged(16), durable=True)
    yield server
    server.stop()


def away(part: str) -> str:
    return f"{part}: PostgreSQL cannot answer now"


def back(part: str) -> str:
    return f"{part}: the database is back"


def outlast_the_leases() -> None:
    """Nothing says that a lease has run out while its database is down, but the clock."""
    over_at = time.monotonic() + LEASE_SECONDS + 0.2
    until(lambda: time.monotonic() > over_at, "the end of all leases")


@pytest.mark.slow
@pytest.mark.postgres
async def test_restart_under_load_loses_nothing(own_server: Server, receiver: Receiver) -> None:
    modes: tuple[Mode, ...] = ("immediate", "fast", "immediate")
    database = PostgresDatabase(own_server.dsn(own_server.create_database()))
    await postgres_migrate.migrate(database.url)
    publish(database, receiver, AMOUNT)
    receiver.delay = 0.05

    with worker(database, "--concurrency", "10", lease=f"{LEASE_SECONDS}s", timeout="6s") as here:
        for mode in modes:
            before = completed(database)
            receiver.most = len(receiver.answered) + AMOUNT // 4  # however late we look, there is work left
            until(lambda before=before: completed(database) >= before + 60, "some work")  # type: ignore[misc]
            assert completed(database) < AMOUNT
            told = here.count("waiting and trying again")
            own_server.halt(mode)
            until(lambda told=told: here.count("waiting and trying again") > told, "the news")  # type: ignore[misc]
            if mode == "fast":
                outlast_the_leases()
            own_server.resume()
        receiver.most = None
        took = all_completed(database, AMOUNT)
        until(lambda: all(here.count(away(part)) == here.count(back(part)) for part in PARTS), "all parts to be back")
        here.send(signal.SIGTERM)
        assert here.ended() == 0

    report = settle_accounts(database, receiver, AMOUNT, title=f"PostgreSQL: {', '.join(modes)}", took=took)
    assert report.in_doubt <= 2 * 10 * len(modes)  # none where all results are written before their leases are closed
    for part in PARTS:
        assert here.count(away(part)) <= len(modes)
        assert here.count(away(part)) == here.count(back(part))
    assert here.count("Traceback") == 0
