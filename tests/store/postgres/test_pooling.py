"""Everything works through a pooler in transaction mode: no state of a session is needed, nor left behind."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import NamedTuple

import psycopg
import pytest
import pytest_asyncio

from sendonce.domain.attempts import Verdict
from sendonce.domain.outcomes import Delivered, Refused
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.store.filters import Filter
from sendonce.store.migrations import available
from sendonce.store.postgres import migrate as postgres_migrate
from sendonce.store.postgres.store import PostgresStore
from tests.given import HOLD, WORKER, expire, given_lease, settle_with
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase
from tests.store.postgres.pooler import Pooler

CLIENTS = 5


class Real(NamedTuple):
    """The real PgBouncer, for one database."""

    bouncer: PgBouncer
    url: str

    @property
    def transactions(self) -> int:
        return self.bouncer.transactions


EACH = 40


@pytest_asyncio.fixture
async def emulated(database: PostgresDatabase, postgres_server: Server) -> AsyncIterator[Pooler]:
    """Two connections to the server, shared by all who come, and handed out in turn."""
    if not postgres_server.folder:
        pytest.skip("the pooler of the tests cannot log in where a password may be wanted")
    async with Pooler(database.url).run(size=2) as pooler:
        yield pooler


@pytest_asyncio.fixture(params=["emulated", "PgBouncer"])
async def pooler(
    request: pytest.FixtureRequest, database: PostgresDatabase, postgres_server: Server
) -> AsyncIterator[Pooler | Real]:
    """The same, and the real one."""
    if not postgres_server.folder:
        pytest.skip("the pooler of the tests cannot log in where a password may be wanted")
    if request.param == "emulated":
        async with Pooler(database.url).run(size=2) as pooler:
            yield pooler
        return
    with PgBouncer(postgres_server.url, size=2) as bouncer:
        yield Real(bouncer, bouncer.url_of(database.url.rpartition("/")[2]))


def publish(url: str, client: int) -> None:
    """What an application does: single events and a batch, each in a transaction of its own."""
    outbox = Outbox()
    with psycopg.connect(url, prepare_threshold=None) as connection:
        for n in range(EACH // 2):
            outbox.publish(connection, "memo.created", {"n": n}, key=f"{client}-{n}", to="null:a")
            connection.commit()
            assert outbox.publish(connection, "memo.created", {"n": n}, key=f"{client}-{n}", to="null:a").duplicate
            connection.commit()
        rest = range(EACH // 2, EACH)
        outbox.publish_many(
            connection, [Draft("memo.created", {"n": n}, key=f"{client}-{n}", to="null:a") for n in rest]
        )


async def publish_from_many(url: str) -> None:
    await asyncio.gather(*(asyncio.to_thread(publish, url, client) for client in range(CLIENTS)))


def request(url: str, client: int) -> int:
    """One version of a subject, with a key of each client's own."""
    with psycopg.connect(url, prepare_threshold=None) as connection:
        return (
            Outbox()
            .request(connection, "memo.signed", {}, key=f"job-{client}", subject="7", version=1, required="null:a")
            .request_id
        )


async def test_requests_wait_for_each_other_through_it_and_leave_no_lock(
    pooler: Pooler | Real, database: PostgresDatabase
) -> None:
    made = await asyncio.gather(*(asyncio.to_thread(request, pooler.url, client) for client in range(8)))

    assert len(set(made)) == 1
    assert len(database.rows("requests")) == len(database.rows("deliveries")) == 1
    assert database.one("select count(*) from pg_locks where locktype = 'advisory'") == 0


async def test_emulated_pooler_keeps_no_session(emulated: Pooler) -> None:
    async with await psycopg.AsyncConnection.connect(
        emulated.url, autocommit=True, prepare_threshold=None
    ) as connection:
        await connection.execute("set work_mem = '77MB'")
        cursor = await connection.execute("show work_mem")
        assert await cursor.fetchone() != ("77MB",)
        connection.prepare_threshold = 0
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            await connection.execute("select 1::int + %s", (1,))


async def test_pooler_refuses_options(pooler: Pooler | Real) -> None:
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter: options"):
        await psycopg.AsyncConnection.connect(f"{pooler.url}?options=-c%20jit%3Doff")


async def test_publishers_and_workers_share_two_connections_of_a_pooler(
    database: PostgresDatabase, pooler: Pooler | Real
) -> None:
    await publish_from_many(pooler.url)
    sent: Counter[str] = Counter()

    async def work() -> None:
        store = await PostgresStore.connect(pooler.url)
        worker_id = await store.register("host", "1.0", 10)
        while (started := await store.start(worker_id, 7, HOLD)).lease is not None:
            lease = started.lease
            sent.update(claim.key for claim in lease.claims)
            assert await store.renew([lease.id], HOLD) == {lease.id}
            assert set(await settle_with(store, lease, Delivered())) == {Verdict.APPLIED}
            await store.release([lease.id])
            await store.beat(worker_id, progressed=True)
        await store.leave(worker_id)
        await store.close()

    await asyncio.gather(*(work() for _ in range(CLIENTS)))

    assert len(sent) == CLIENTS * EACH
    assert set(sent.values()) == {1}
    assert database.one("select count(*) from sendonce_deliveries where status = 'Completed'") == CLIENTS * EACH
    assert pooler.transactions > CLIENTS * EACH


async def test_leases_expire_and_operators_act_through_it(database: PostgresDatabase, pooler: Pooler | Real) -> None:
    await asyncio.to_thread(publish, pooler.url, 1)
    store = await PostgresStore.connect(pooler.url)

    lost = await given_lease(store, limit=EACH)
    database.advance(HOLD + timedelta(seconds=1))
    closed = await expire(store)
    late = await settle_with(store, lost, Delivered("n-1"))
    await store.stop("channel", "null", operator="ada", reason=None)
    held = await store.start(WORKER, 10, HOLD)
    await store.resume("channel", "null", operator="ada")
    await settle_with(store, await given_lease(store, limit=EACH), Refused("410"))
    letters = await store.dead_letters(Filter(limit=EACH))
    reopened = await store.open_generations(
        [letter.delivery_id for letter in letters], kind="requeue", operator="ada", reason="again"
    )

    assert (len(closed), set(late)) == (EACH, {Verdict.LATE})
    assert (held.lease, held.parked) == (None, EACH)
    assert len(reopened.ids) == EACH
    assert not await store.is_idle()
    assert (await store.status()).due == EACH
    await store.close()


async def test_migrations_run_through_it(pg_dsn: str, postgres_server: Server) -> None:
    if not postgres_server.folder:
        pytest.skip("the pooler of the tests cannot log in where a password may be wanted")
    async with Pooler(pg_dsn).run(size=2) as pooler:
        applied = await asyncio.gather(*(postgres_migrate.migrate(pooler.url) for _ in range(3)))

    assert sorted(len(each) for each in applied) == [0, 0, len(available(postgres_migrate.PACKAGE))]


async def test_workers_run_through_a_pooler_while_others_publish(
    database: PostgresDatabase, pooler: Pooler | Real
) -> None:
    await asyncio.to_thread(publish, pooler.url, 99)
    command = [sys.executable, "-m", "sendonce", "worker", "--until-idle", "--concurrency", "5", "--poll", "100ms"]
    workers = [
        await asyncio.create_subprocess_exec(
            *command, "--database", pooler.url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]

    publishing = asyncio.create_task(publish_from_many(pooler.url))
    said = [await worker.communicate() for worker in workers]
    await publishing
    last = await asyncio.create_subprocess_exec(
        *command, "--database", pooler.url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said.append(await last.communicate())

    assert [worker.returncode for worker in (*workers, last)] == [0, 0, 0], said
    assert not any(b"cannot answer" in err for _, err in said), said
    done = "select count(*) from sendonce_deliveries where status = 'Completed' and attempt_count = 1"
    assert database.one(done) == (CLIENTS + 1) * EACH
    assert database.rows("leases") == []
