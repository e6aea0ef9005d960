"""Migrations: applied once however often and by however many they are run; other schemas are refused in a sentence."""

import asyncio
import signal
import sys
from collections.abc import Iterator

import psycopg
import pytest

from sendonce.cli import main
from sendonce.domain.attempts import Verdict
from sendonce.domain.outcomes import Delivered
from sendonce.errors import SchemaMismatch, StoreBusy, StoreError
from sendonce.store.migrations import Migration, available
from sendonce.store.postgres import migrate as postgres_migrate
from sendonce.store.postgres import store as store_module
from sendonce.store.postgres.store import PostgresStore
from tests.given import HOLD, WORKER, given_due_delivery, given_lease, settle_with
from tests.processes import sendonce
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase
from tests.store.postgres.catalog import catalog

ALL = [each.name for each in available(postgres_migrate.PACKAGE)]
KNOWN = len(ALL)


@pytest.fixture
def empty(pg_dsn: str) -> PostgresDatabase:
    return PostgresDatabase(pg_dsn)


@pytest.fixture
def other(postgres_server: Server) -> Iterator[PostgresDatabase]:
    name = postgres_server.create_database()
    yield PostgresDatabase(postgres_server.dsn(name))
    postgres_server.drop_database(name)


async def test_migration_is_applied_once(empty: PostgresDatabase) -> None:
    before = await postgres_migrate.schema_version(empty.url)
    first = await postgres_migrate.migrate(empty.url)
    namespace = empty.one("select value from sendonce_meta where name = 'namespace'")

    assert (before, first) == (0, ALL)
    assert await postgres_migrate.migrate(empty.url) == []
    assert await postgres_migrate.schema_version(empty.url) == KNOWN
    assert empty.one("select value from sendonce_meta where name = 'namespace'") == namespace


async def test_migrations_at_once_apply_exactly_once(empty: PostgresDatabase) -> None:
    applied = await asyncio.gather(*(postgres_migrate.migrate(empty.url) for _ in range(6)))

    assert sorted(applied) == [[]] * 5 + [ALL]
    assert await postgres_migrate.schema_version(empty.url) == KNOWN


async def test_migrations_from_many_hosts_apply_exactly_once(empty: PostgresDatabase) -> None:
    command = [sys.executable, "-m", "sendonce", "migrate", "--database", empty.url]
    hosts = [
        await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        for _ in range(3)
    ]

    said = [await host.communicate() for host in hosts]

    assert [host.returncode for host in hosts] == [0, 0, 0], said
    applied = sorted(b"applied " in out for out, _ in said)
    assert applied == [False, False, True]


async def test_printed_script_makes_the_same_schema(empty: PostgresDatabase, other: PostgresDatabase) -> None:
    await postgres_migrate.migrate(empty.url)
    with psycopg.connect(other.url, autocommit=True) as connection:
        connection.execute(postgres_migrate.sql().encode())

    printed, applied = catalog(other), catalog(empty)

    assert printed == applied
    assert all(printed.values())
    assert await postgres_migrate.migrate(other.url) == []


async def test_script_for_what_is_already_there_is_empty(empty: PostgresDatabase) -> None:
    await postgres_migrate.migrate(empty.url)
    before = catalog(empty)

    with psycopg.connect(empty.url, autocommit=True) as connection:
        connection.execute(postgres_migrate.sql(KNOWN).encode())

    assert catalog(empty) == before
    assert "create" not in postgres_migrate.sql(KNOWN)


async def test_migrations_are_all_undone_when_one_fails(
    empty: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [
        *available(postgres_migrate.PACKAGE),
        Migration(KNOWN + 1, "broken", "create table sendonce_meta (id int);"),
    ]
    monkeypatch.setattr(postgres_migrate, "available", lambda _: broken)

    with pytest.raises(StoreError):
        await postgres_migrate.migrate(empty.url)

    assert await postgres_migrate.schema_version(empty.url) == 0
    assert empty.one("select count(*) from pg_class where relname like 'sendonce%%'") == 0


def test_migration_says_whom_it_waits_for_and_that_an_interruption_changed_nothing(
    empty: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(postgres_migrate, "available", lambda package: available(package)[:1])
        asyncio.run(postgres_migrate.migrate(empty.url))
    with psycopg.connect(empty.url) as holding:
        holding.execute("select count(*) from sendonce_events")
        held_by = f"transaction {holding.info.backend_pid}, which holds sendonce_events"

        with sendonce("migrate", database=empty.url) as waiting:
            waiting.says(f"^waiting for {held_by}; nothing is changed yet$")
            waiting.send(signal.SIGINT)
            code = waiting.ended()

    assert (code, waiting.lines[-1]) == (130, "sendonce: interrupted; nothing was changed\n")
    assert asyncio.run(postgres_migrate.schema_version(empty.url)) == 1


def test_migration_interrupted_after_it_changed_the_tables_says_so(
    empty: PostgresDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(point: str) -> None:
        if point == "migrate.after_commit":
            raise KeyboardInterrupt

    monkeypatch.setattr(postgres_migrate, "checkpoint", interrupt)

    code = main(["migrate", "--database", empty.url])

    assert code == 130
    assert capsys.readouterr().err.startswith("sendonce: interrupted; the tables are changed, or were just about to be")


async def test_server_that_only_reads_is_said_to(empty: PostgresDatabase) -> None:
    empty.execute(f"alter database {empty.one('select current_database()')} set default_transaction_read_only = on")

    with pytest.raises(StoreBusy, match=r"only reads \(a standby, .* use the primary's address, or switch that off$"):
        await postgres_migrate.migrate(empty.url)


async def test_database_without_tables_is_refused_in_a_sentence(empty: PostgresDatabase) -> None:
    with pytest.raises(SchemaMismatch, match=r"^this database has no sendonce tables yet; run: sendonce migrate$"):
        await PostgresStore.connect(empty.url)


async def test_older_schema_is_refused_in_a_sentence(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [*available(postgres_migrate.PACKAGE), Migration(KNOWN + 1, "next", "")]
    monkeypatch.setattr(store_module, "available", lambda _: more)

    sentence = f"^the database's schema is {KNOWN} and this program needs {KNOWN + 1}; run: sendonce migrate$"
    with pytest.raises(SchemaMismatch, match=sentence):
        await database.open()


async def test_schema_that_is_too_new_is_refused_in_a_sentence(database: PostgresDatabase) -> None:
    database.execute("update sendonce_meta set value = ? where name = 'schema_version'", str(KNOWN + 2))

    with pytest.raises(
        SchemaMismatch, match=f"schema is {KNOWN + 2}, too new for this program, which knows {KNOWN}; inst"
    ):
        await database.open()


async def test_next_schema_is_good_enough_and_is_left_alone(database: PostgresDatabase) -> None:
    database.execute("update sendonce_meta set value = ? where name = 'schema_version'", str(KNOWN + 1))
    store = await database.open()
    given_due_delivery(database)

    verdicts = await settle_with(store, await given_lease(store), Delivered())

    assert verdicts == [Verdict.APPLIED]
    assert await postgres_migrate.migrate(database.url) == []
    assert await postgres_migrate.schema_version(database.url) == KNOWN + 1
    await database.close()


async def test_tables_that_vanish_are_said_to_be_missing(database: PostgresDatabase) -> None:
    store = await database.open()
    database.execute("drop table sendonce_leases")

    with pytest.raises(SchemaMismatch, match="run: sendonce migrate"):
        await store.start(WORKER, 1, HOLD)

    await database.close()


async def test_schemas_of_one_database_are_separate_installations(empty: PostgresDatabase) -> None:
    empty.execute('create schema "One"')
    empty.execute("create schema two")
    one, two = (
        PostgresDatabase(f"{empty.url}{'&' if '?' in empty.url else '?'}options=-c%20search_path%3D{name}")
        for name in ("%22One%22", "two")
    )

    applied = [await postgres_migrate.migrate(each.url) for each in (one, two)]
    given_due_delivery(one)
    lease = await given_lease(await one.open())
    await settle_with(one.stores[0], lease, Delivered())
    reopened = await one.stores[0].open_generations(
        [lease.claims[0].delivery_id], kind="replay", operator="ada", reason="again"
    )

    assert applied == [ALL, ALL]
    assert len(reopened.ids) == 1
    assert [len(each.rows("deliveries")) for each in (one, two)] == [2, 0]
    assert catalog(one)["columns"] == catalog(two)["columns"]
    await one.close()
