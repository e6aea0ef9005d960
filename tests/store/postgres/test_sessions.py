"""Whatever the environment or the database says of texts, times and transactions: ours are as we need them."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from sendonce.admin.doctor import Level, Limits, examine
from sendonce.compose import amigrate, open_store
from sendonce.domain.outcomes import Delivered, Failed
from sendonce.errors import StoreError
from sendonce.outbox.outbox import Outbox
from sendonce.store.filters import Filter
from sendonce.store.postgres import migrate as postgres_migrate
from sendonce.store.postgres.connection import opened
from sendonce.store.postgres.store import PostgresStore
from tests.given import HOLD, POLICY, given_lease, settle_with
from tests.processes import SECONDS, Process, sendonce
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase
from tests.store.postgres.pooler import Pooler

TEXT = "Zürich, 東京, 😀"
LIMITS = Limits(lease=HOLD, timeout=POLICY.timeout)
ODD = {
    "texts in another encoding": {"client_encoding": "LATIN1"},
    "texts in none": {"client_encoding": "SQL_ASCII"},
    "German times": {"DateStyle": "German"},
    "SQL times": {"DateStyle": "SQL, DMY"},
    "PostgreSQL's own times": {"DateStyle": "Postgres, MDY"},
    "a zone far away": {"TimeZone": "Asia/Kathmandu"},
    "a zone without a name": {"TimeZone": "<+07>-07"},
    "backslashes that mean something": {"standard_conforming_strings": "off"},
    "other intervals": {"IntervalStyle": "iso_8601"},
    "bytes escaped": {"bytea_output": "escape"},
    "serializable": {"default_transaction_isolation": "serializable"},
    "repeatable read": {"default_transaction_isolation": "repeatable read"},
}
# What a program finds in its environment, for libpq to send.
VARIABLES = {
    "PGCLIENTENCODING": "LATIN1",
    "PGDATESTYLE": "German",
    "PGTZ": "Asia/Kathmandu",
    "PGOPTIONS": "-c default_transaction_isolation=serializable",
}


def set_for_database(database: PostgresDatabase, settings: dict[str, str]) -> None:
    name = psycopg.conninfo.conninfo_to_dict(database.url)["dbname"]
    for setting, value in settings.items():
        database.execute(f"alter database \"{name}\" set {setting} = '{value}'")


def publish(url: str, key: str) -> None:
    """As a caller whose own connection can say what it has to say."""
    with psycopg.connect(url, client_encoding="UTF8") as connection:
        Outbox().publish(connection, "memo.created", {"text": TEXT}, key=key, to="null:a")


async def live(url: str) -> None:
    """A delivery is sent, fails with the same text, waits for its time, is read, looked at and verified."""
    store = await PostgresStore.connect(url, writes=True)
    try:
        await store.ready()
        worker_id = await store.register("w", "1", 1)
        lease = await given_lease(store)
        [claim] = lease.claims
        assert TEXT in (claim.payload or "")
        assert await store.renew([lease.id], HOLD) == {lease.id}
        await store.beat(worker_id, progressed=True)
        assert await settle_with(store, lease, Failed("http_503", TEXT)) == ["applied"]
        [row] = await store.deliveries(Filter(limit=10))
        assert row.next_attempt_at is not None
        assert row.next_attempt_at.utcoffset() is not None
        assert (await store.attempts_of(row.id))[0].error_message == TEXT
        await store.verify_facts()
        assert await store.broken_rules() == []
    finally:
        await store.close()
    said = {each.name for each in await examine(url, LIMITS) if each.level is Level.PROBLEM}
    assert said <= {"durability"}  # which the servers of the tests do without


@pytest.mark.parametrize("odd", ODD)
async def test_database_may_have_odd_defaults(database: PostgresDatabase, odd: str) -> None:
    set_for_database(database, ODD[odd])
    publish(database.url, "one")

    await live(database.url)
    assert await amigrate(database.url) == []


async def test_reload_of_the_servers_settings_changes_nothing_for_us(database: PostgresDatabase) -> None:
    """It is for sessions that have not said what they want."""
    connection, _ = await opened(database.url)
    cursor = await connection.execute(
        "select name from pg_settings where source <> 'session' and name = any(%s)",
        (["client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "default_transaction_isolation"],),
    )

    assert [row[0] for row in await cursor.fetchall()] == ["client_encoding"]  # the client's own: asked for by name
    await connection.close()


async def test_program_may_have_an_odd_environment(database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(database.url, "one")
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)

    await live(database.url)


def test_worker_with_an_odd_environment_sends_and_says_nothing(database: PostgresDatabase) -> None:
    for key in ("one", "two", "three"):
        publish(database.url, key)

    with sendonce("worker", "--until-idle", database=database.url, environment=VARIABLES) as worker:
        assert worker.ended() == 0
        said = worker.lines

    assert [line for line in said if "WARNING" in line or "ERROR" in line] == []
    assert database.one("select count(*) from sendonce_deliveries where status = 'Completed'") == 3


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
async def test_pooler_sees_no_conflict_and_no_changed_session(
    database: PostgresDatabase, postgres_server: Server, level: str
) -> None:
    """One who waited for a row sees what came before, though single statements are transactions of their own."""
    if not postgres_server.folder:
        pytest.skip("the pooler of the tests cannot log in where a password may be wanted")
    set_for_database(database, {"default_transaction_isolation": level})
    async with Pooler(database.url).run(size=3) as pooler:
        store = await PostgresStore.connect(pooler.url, writes=True)
        worker_id = await store.register("w", "1", 1)
        with psycopg.connect(database.url) as other:
            other.execute("update sendonce_workers set seen_at = now()")
            beating = asyncio.create_task(store.beat(worker_id, progressed=True))
            await waiting(database)
            other.commit()
        await beating
        await store.verify_facts()
        await store.close()

        async with await psycopg.AsyncConnection.connect(pooler.url, autocommit=True, prepare_threshold=None) as theirs:
            for _ in range(4):
                cursor = await theirs.execute("show default_transaction_isolation")
                assert await cursor.fetchone() == (level,)


async def waiting(database: PostgresDatabase) -> None:
    asked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    async with asyncio.timeout(SECONDS):
        while not await asyncio.to_thread(database.one, asked):
            await asyncio.sleep(0)


@pytest.fixture(params=["LATIN1", "SQL_ASCII"])
def narrow(request: pytest.FixtureRequest, postgres_server: Server) -> Iterator[PostgresDatabase]:
    """An empty database that cannot keep every text, or keeps anything."""
    name = f"test_{request.param.lower()}"
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as connection:
        connection.execute(
            f"create database {name} encoding '{request.param}' lc_collate 'C' lc_ctype 'C' template template0".encode()
        )
    yield PostgresDatabase(postgres_server.dsn(name))
    postgres_server.drop_database(name)


async def test_database_that_cannot_keep_every_text_is_refused_before_anything_is_made(
    narrow: PostgresDatabase,
) -> None:
    with pytest.raises(StoreError, match=r"this database's encoding is (LATIN1|SQL_ASCII), which cannot keep every"):
        await amigrate(narrow.url)

    assert narrow.one("select count(*) from pg_class where starts_with(relname, 'sendonce')") == 0
    diagnosed = {each.name: each for each in await examine(narrow.url, LIMITS)}
    assert diagnosed["encoding"].level is Level.PROBLEM


async def test_worker_refuses_a_database_that_cannot_keep_every_text(narrow: PostgresDatabase) -> None:
    with psycopg.connect(narrow.url, client_encoding="UTF8") as connection:
        connection.execute(postgres_migrate.sql().encode())
    store = await open_store(narrow.url)
    assert await store.broken_rules() == []
    await store.close()

    with sendonce("worker", "--until-idle", database=narrow.url) as worker:
        assert worker.ended() == 1

    assert worker.count("^sendonce: this database's encoding is ") == 1
    assert narrow.rows("workers") == []


SCHEMAS = ("My Schema", 'with "quotes"', "Größe", "select")


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_tables_may_be_in_a_schema_of_any_name(pg_dsn: str, schema: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(pg_dsn)["dbname"]
    spelled = psycopg.sql.Identifier(schema)
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("create schema {}").format(spelled))
        connection.execute(
            psycopg.sql.SQL("alter database {} set search_path = {}").format(psycopg.sql.Identifier(str(name)), spelled)
        )

    assert await amigrate(pg_dsn)
    assert await amigrate(pg_dsn) == []
    publish(pg_dsn, "one")
    await live(pg_dsn)


def test_worker_without_enough_descriptors_says_so_before_it_claims(database: PostgresDatabase) -> None:
    publish(database.url, "one")
    database.execute("update sendonce_deliveries set if_unsure = 'hold'")

    with limited(64, database.url) as worker:
        assert worker.ended() == 1

    assert worker.count("may open 64 files, and 100 sends at once need 140; raise its limit") == 1
    assert database.rows("workers") == database.rows("attempts") == []


def test_worker_with_just_enough_descriptors_opens_all_it_needs_first(database: PostgresDatabase) -> None:
    for number in range(30):
        publish(database.url, str(number))

    with limited(64, database.url, "--concurrency", "24", "--notify") as worker:
        assert worker.ended() == 0

    assert [line for line in worker.lines if "WARNING" in line] == []
    assert database.one("select count(*) from sendonce_deliveries where status = 'Completed'") == 30


async def test_connections_are_all_open_before_the_first_claim(database: PostgresDatabase) -> None:
    """Who cannot open one more connection has none to open in the middle of its work."""
    publish(database.url, "one")
    store = await PostgresStore.connect(database.url, writes=True)

    await store.ready()
    before = ours(database)
    lease = await given_lease(store)
    await settle_with(store, lease, Delivered())
    await store.release([lease.id])

    assert ours(database) == before
    await store.close()


def ours(database: PostgresDatabase) -> set[int]:
    asked = "select pid from pg_stat_activity where application_name = 'sendonce' and datname = current_database()"
    return {row[0] for row in database.execute(asked)}


def limited(files: int, url: str, *options: str) -> Process:
    """A worker that may have so many files open, sockets included."""
    script = (
        f"import resource, runpy; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}));"
        "runpy.run_module('sendonce', run_name='__main__', alter_sys=True)"
    )
    return Process("-c", script, "worker", "--until-idle", *options, environment={"SENDONCE_DATABASE": url})
