"""A server that only reads is said once, is left at once, and the worker goes on when one that writes answers."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta

import psycopg
import pytest

from sendonce.domain.outcomes import Delivered
from sendonce.engine.background import Outage
from sendonce.errors import ServerReadOnly, StoreBusy
from sendonce.observability.facts import DatabaseBack, DatabaseLost, Fact
from sendonce.outbox.outbox import Outbox
from sendonce.store.postgres.notify import PostgresNotifier
from sendonce.store.postgres.store import PostgresStore
from tests.given import HOLD, WORKER, given_due_delivery, given_lease, settle_with
from tests.processes import SECONDS, sendonce, until
from tests.store.databases import PostgresDatabase

CUT = (
    "select count(pg_terminate_backend(pid)) from pg_stat_activity"
    " where datname = current_database() and pid <> pg_backend_pid()"
)
LANES: dict[str, Callable[[PostgresStore], Awaitable[object]]] = {
    "claims": lambda store: store.start(WORKER, 1, HOLD),
    "results": lambda store: store.cancel([10**6], operator="ada", reason="test"),
    "leases": lambda store: store.register("w", "1", 1),
    "people": lambda store: store.stop("tenant", "acme", operator="ada", reason=None),
    "upkeep": lambda store: store.drop_rest(limit=10, workers=None, operations=None),
}
LOST = "(worker|results|lease keeper): PostgreSQL cannot answer now"


def only_reads(database: PostgresDatabase, *, is_on: bool) -> None:
    """For sessions that begin from now on."""
    name = psycopg.conninfo.conninfo_to_dict(database.url)["dbname"]
    what = "set default_transaction_read_only = on" if is_on else "reset default_transaction_read_only"
    with psycopg.connect(database.url, dbname="postgres", autocommit=True) as connection:
        connection.execute(f'alter database "{name}" {what}'.encode())


def publish(database: PostgresDatabase, amount: int, first: int = 0) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("set default_transaction_read_only = off")
        with connection.transaction():
            for number in range(first, first + amount):
                Outbox().publish(connection, "memo.created", {}, key=str(number), to="null:a")


@pytest.mark.parametrize("writes", [True, False], ids=["a worker's", "a person's"])
@pytest.mark.parametrize("lane", LANES)
async def test_connection_leaves_a_server_that_only_reads(
    database: PostgresDatabase, lane: str, *, writes: bool
) -> None:
    store = await PostgresStore.connect(database.url, writes=writes)
    await LANES[lane](store)
    only_reads(database, is_on=True)
    database.execute(CUT)
    with pytest.raises(StoreBusy):  # that it was cut
        await LANES[lane](store)

    for _ in range(2):
        with pytest.raises(ServerReadOnly, match="this server or session only reads"):
            await LANES[lane](store)
    only_reads(database, is_on=False)

    await LANES[lane](store)
    await store.close()


async def test_standby_may_be_read_and_refuses_workers(database: PostgresDatabase) -> None:
    """A worker that read its gauges there would go on reading them there, when the primary is another."""
    given_due_delivery(database)
    only_reads(database, is_on=True)

    reader = await PostgresStore.connect(database.url)
    assert (await reader.status()).due == 1
    await reader.close()
    with pytest.raises(ServerReadOnly):
        await PostgresStore.connect(database.url, writes=True)


async def test_session_that_became_read_only_is_not_kept(database: PostgresDatabase) -> None:
    """It is set while we are connected, and taken back for new sessions only."""
    store = await PostgresStore.connect(database.url, writes=True)
    given_due_delivery(database)
    lease = await given_lease(store)
    async with store.results.connection() as connection:
        await connection.execute("set default_transaction_read_only = on")

    with pytest.raises(ServerReadOnly):
        await settle_with(store, lease, Delivered())

    assert await settle_with(store, lease, Delivered()) == ["applied"]
    await store.close()


async def test_doorbell_on_a_server_that_only_reads_waits_and_listens_again(database: PostgresDatabase) -> None:
    only_reads(database, is_on=True)
    bell = PostgresNotifier(database.url)
    await bell.wait(timedelta(milliseconds=10))
    database.execute(CUT)
    only_reads(database, is_on=False)

    listening = "select count(*) from pg_stat_activity where query = 'listen sendonce' and datname = current_database()"
    async with asyncio.timeout(SECONDS):
        while not database.one(listening):
            await bell.wait(timedelta(seconds=1))

    assert database.one(listening) == 1
    await bell.close()


def test_outage_is_said_once_and_once_more_when_the_server_only_reads() -> None:
    said: list[Fact] = []
    outage = Outage("worker", said.append)

    for error in (StoreBusy("gone"), StoreBusy("gone"), ServerReadOnly("reads"), StoreBusy("x"), ServerReadOnly("y")):
        outage.met(error)
    outage.over()
    outage.over()
    outage.met(ServerReadOnly("again"))

    reasons = [fact.reason for fact in said if isinstance(fact, DatabaseLost)]
    assert reasons == ["gone", "reads", "again"]
    assert [type(fact) for fact in said].count(DatabaseBack) == 1


@pytest.mark.slow
def test_worker_says_it_once_and_goes_on_by_itself(database: PostgresDatabase) -> None:
    done = "select count(*) from sendonce_deliveries where status = 'Completed'"
    with sendonce("worker", "--poll", "50ms", "--notify", database=database.url) as worker:
        publish(database, 3)
        until(lambda: database.one(done) == 3, "the first to be sent")
        only_reads(database, is_on=True)
        database.execute(CUT)
        worker.says("worker: .*only reads")
        worker.says("lease keeper: .*only reads")
        publish(database, 4, first=3)
        only_reads(database, is_on=False)
        until(lambda: database.one(done) == 7, "the others to be sent")
        worker.says("lease keeper: the database is back")
        said = Counter(match[1] for line in worker.lines if (match := re.search(r"(\w[\w ]*): .*only reads", line)))

    assert set(said.values()) == {1}, worker.said
    assert database.one("select max(attempt_count) from sendonce_deliveries") == 1


def test_worker_does_not_begin_on_a_server_that_only_reads(database: PostgresDatabase) -> None:
    only_reads(database, is_on=True)

    with sendonce("worker", database=database.url) as worker:
        assert worker.ended() == 1

    assert worker.count("^sendonce: PostgreSQL cannot answer now: this server or session only reads") == 1
