"""A claim survives the crash that follows it, whatever the database's default is."""

import os
import signal
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from sendonce.store.postgres import migrate as postgres_migrate
from sendonce.store.postgres.store import PostgresStore
from tests.given import given_due_deliveries, given_event, given_lease
from tests.servers.binaries import local_binaries, packaged
from tests.servers.postgres import Server, start
from tests.store.databases import PostgresDatabase

pytestmark = pytest.mark.postgres

# Nobody but a commit that waits for it writes the log to disk.
CARELESS_COMMITS = {"synchronous_commit": "off", "autovacuum": "off", "bgwriter_lru_maxpages": "0"}

LOG_WRITER = "select pid, wait_event from pg_stat_activity where backend_type = 'walwriter'"


@pytest.fixture
def own_server() -> Iterator[Server]:
    server = start(local_binaries() or packaged(16), durable=True, settings=CARELESS_COMMITS)
    yield server
    server.stop()


def pause_the_log_writer(database: PostgresDatabase) -> int:
    """Stop the process that would write the log a little later, at a moment when it holds no lock."""
    for _ in range(100):
        [(pid, _)] = database.execute(LOG_WRITER)
        os.kill(pid, signal.SIGSTOP)
        [(_, does)] = database.execute(LOG_WRITER)
        if does == "WalWriterMain":
            assert isinstance(pid, int)
            return pid
        os.kill(pid, signal.SIGCONT)
    raise AssertionError("the log writer is never idle")


def crash(server: Server, log_writer: int) -> None:
    """Every process gone at once; then the server comes back with what is on the disk."""
    for pid in (server.pid, log_writer):
        os.kill(pid, signal.SIGKILL)
    for last_try in (*[False] * 20, True):
        try:
            server.resume()
        except subprocess.CalledProcessError:  # the others are still noticing that their parent has died
            if last_try:
                raise
        else:
            return


async def test_claim_is_on_the_disk_when_start_returns(own_server: Server) -> None:
    database = PostgresDatabase(own_server.dsn(own_server.create_database()))
    await postgres_migrate.migrate(database.url)
    given_due_deliveries(database, 3)
    store = await PostgresStore.connect(database.url)
    log_writer = pause_the_log_writer(database)

    lease = await given_lease(store, limit=2)
    lost = given_event(database, key="committed, and not waited for")
    crash(own_server, log_writer)

    leased = database.execute("select delivery_id, lease_id, status from sendonce_attempts order by delivery_id")
    assert leased == [(claim.delivery_id, lease.id, "Leased") for claim in lease.claims]
    assert database.one("select deliveries from sendonce_leases") == [claim.delivery_id for claim in lease.claims]
    assert database.execute("select 1 from sendonce_events where id = ?", lost) == []
    await store.close()


@pytest.mark.parametrize("default", ["off", "local", "on"])
async def test_default_of_the_session_stays_what_it_was(database: PostgresDatabase, default: str) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'alter database "{name}" set synchronous_commit = {default}'.encode())
    given_due_deliveries(database, 1)
    store = await PostgresStore.connect(database.url)

    await given_lease(store)

    async with store.claims.connection() as claims:
        cursor = await claims.execute("show synchronous_commit")
        assert await cursor.fetchone() == (default,)
    await store.close()
