"""Filling in after a migration: in bounded steps, again and again, and nothing of an older program is forgotten."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import psycopg
import pytest

from sendonce.compose import amigrate, migrate, open_store
from sendonce.errors import SchemaMismatch, StoreBusy
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.store.migrations import BACKFILL_ROWS, Backfill, News, available
from sendonce.store.postgres import migrate as postgres_migrate
from tests.cli.workbench import run
from tests.crash.accounts import url_of
from tests.given import given_event
from tests.processes import until
from tests.store.bulkwork import given_many_dead_letters
from tests.store.conftest import database, postgres_template, sqlite_template
from tests.store.databases import Database, PostgresDatabase
from tests.upgrade.releases import before
from tests.upgrade.system import WRONGLY_ROUTED

__all__ = ["database", "postgres_template", "sqlite_template"]

OLD = "insert into sendonce_events (type, key, content_digest) values ('a', ?, gen_random_uuid())"
LATER = """
insert into sendonce_events (created_at, content_digest, type, key, payload)
select created_at, content_digest, type, 'later', payload from sendonce_events where id = 1
"""
STATE = "select value from sendonce_meta where name = 'backfill:0002_routed'"
CLOSED = "sendonce_meta where name = 'closed:0002_routed'"


def migrated(database: Database) -> list[Backfill]:
    """Run the migration; what it told of its back-fills."""
    told: list[News] = []
    migrate(url_of(database), told.append)
    return [each for each in told if isinstance(each, Backfill)]


def given_older_programs(database: Database) -> None:
    """Let the database be one that programs of the first schema have used, and may have written to since."""
    database.execute(f"delete from {CLOSED}")


def hide_large_tables(database: Database) -> None:
    """Let every statement fail that names a table in which rows are added with the work."""
    for table in ("events", "deliveries", "attempts", "dead_letters", "requests", "messages", "receipts", "findings"):
        database.execute(f"alter table sendonce_{table} rename to hidden_{table}")


def test_backfill_fills_in_what_an_older_program_has_recorded(database: Database) -> None:
    given_older_programs(database)
    given_many_dead_letters(database, 2 * BACKFILL_ROWS + 10)

    first, second = migrated(database), migrated(database)

    bound = 2 * BACKFILL_ROWS + 10
    assert [(each.done, each.bound) for each in first] == [
        (BACKFILL_ROWS, bound), (2 * BACKFILL_ROWS, bound), (bound, bound)
    ]  # fmt: skip
    assert first[-1].is_finished
    assert second == []
    assert database.execute(WRONGLY_ROUTED) == []


def test_backfill_reads_no_large_table_again_when_it_has_looked_for_older_programs_once(database: Database) -> None:
    given_older_programs(database)
    given_many_dead_letters(database, 10)
    migrated(database)
    assert database.one(f"select value from {CLOSED}") == "closed"

    hide_large_tables(database)

    assert migrated(database) == []


def test_new_database_has_no_older_programs_to_look_for(empty: Database) -> None:
    migrated(empty)
    hide_large_tables(empty)

    assert migrated(empty) == []


def test_backfill_looks_again_after_the_run_that_changed_the_tables(older: Database) -> None:
    given_many_dead_letters(older, 2)

    first = migrated(older)
    older.execute(LATER)

    assert [each.done for each in first] == [2]
    assert [each.done for each in migrated(older)] == [3]
    assert older.one(f"select value from {CLOSED}") == "closed"


def test_backfill_leaves_alone_what_a_newer_program_records(database: Database) -> None:
    given_older_programs(database)
    given_event(database, to=["null:a", "null:b"])

    assert migrated(database) == []
    assert database.one(STATE) == "0/0"


def test_backfill_makes_nothing_up_where_the_deliveries_are_gone(database: Database) -> None:
    given_older_programs(database)
    given_many_dead_letters(database, 3)
    database.execute("update sendonce_dead_letters set closed_at = created_at, closed_as = 'discarded'")
    for table in ("dead_letters where delivery_id", "deliveries where id"):
        database.execute(f"delete from sendonce_{table} = 2")
    database.execute("update sendonce_events set history_gone_at = created_at where id = 2")

    migrated(database)

    assert [row["routed"] for row in database.rows("events")] == [1, None, 1]


@pytest.mark.parametrize("is_new", [True, False])
def test_backfill_does_not_take_removals_of_an_older_program_for_losses(
    empty: Database, tmp_path: Path, is_new: bool
) -> None:
    if not is_new:
        old = before(2, tmp_path / "old")
        old.run("-m", "sendonce", "migrate", database=url_of(empty))
        old.run("-m", "sendonce", "worker", "--until-idle", database=url_of(empty))

    migrated(empty)

    async def counts_removals() -> bool:
        store = await empty.open()
        facts = await store.verify_facts()
        await empty.close()
        return bool(facts.counts_removals)

    assert asyncio.run(counts_removals()) is is_new


def test_backfills_at_once_share_the_work(database: Database) -> None:
    given_older_programs(database)
    given_many_dead_letters(database, 5 * BACKFILL_ROWS)
    told: list[News] = []

    async def both() -> None:
        await asyncio.gather(*(amigrate(url_of(database), told.append) for _ in range(2)))

    asyncio.run(both())

    assert sorted(each.done for each in told if isinstance(each, Backfill)) == [n * BACKFILL_ROWS for n in range(1, 6)]
    assert database.execute(WRONGLY_ROUTED) == []


def test_backfill_waits_for_what_is_not_committed_yet(pg_dsn: str) -> None:
    database = PostgresDatabase(pg_dsn)
    migrated(database)
    given_older_programs(database)
    runner = threading.Thread(target=migrated, args=(database,))
    with psycopg.connect(pg_dsn) as open_still:
        open_still.execute(database.spell(OLD).encode(), ("first",))
        database.execute(OLD, "second")
        runner.start()
        waits = "select count(*) from pg_locks where not granted and mode = 'ShareLock'"
        until(lambda: database.one(waits), "a back-fill that waits for the open transaction")
        assert database.one("select count(*) from sendonce_events where routed is null") == 1
    runner.join()

    assert [row["routed"] for row in database.rows("events")] == [0, 0]


def test_transaction_that_never_ends_is_given_up_on_in_a_sentence(pg_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = PostgresDatabase(pg_dsn)
    migrated(database)
    given_older_programs(database)
    database.execute(OLD, "older")
    monkeypatch.setattr(postgres_migrate, "PATIENCE", timedelta(0))
    with psycopg.connect(pg_dsn) as holding:
        holding.execute("lock table sendonce_events in row exclusive mode")

        with pytest.raises(StoreBusy, match=r"a transaction that does not end holds .* run again: sendonce migrate$"):
            migrated(database)

    assert database.one(STATE) == "0/0"


@pytest.fixture
def older(empty: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database of the first schema."""
    room = "postgres" if isinstance(empty, PostgresDatabase) else "sqlite"
    with monkeypatch.context() as patched:
        migrator = import_module(f"sendonce.store.{room}.migrate")
        known: Callable[[str], object] = lambda package: available(package)[:1]  # noqa: E731
        patched.setattr(migrator, "available", known)
        migrated(empty)
    return empty


def test_publish_before_the_migration_says_what_to_run_and_leaves_nothing(older: Database) -> None:
    older.execute("create table memos (id integer)")
    batch = [Draft("memo.saved", {}, key=key, to="null:a") for key in ("b", "c")]
    for publish in (
        lambda connection: Outbox().publish(connection, "memo.saved", {}, key="a", to="null:a"),
        lambda connection: Outbox().publish_many(connection, batch),
    ):
        with older.connection() as connection:
            connection.execute("insert into memos values (1)")
            with pytest.raises(SchemaMismatch, match="has older ones; run: sendonce migrate"):
                publish(connection)
            if isinstance(older, PostgresDatabase):
                # As after any error, the server refuses to go on with the transaction; nothing of it can be committed.
                with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                    connection.execute("insert into memos values (2)")
                connection.rollback()

    # SQLite took back to before the event, and the caller's own transaction went on.
    assert older.one("select count(*) from memos") == (0 if isinstance(older, PostgresDatabase) else 2)
    assert older.rows("events") == older.rows("deliveries") == []


def test_worker_before_the_migration_does_not_start(older: Database) -> None:
    ran = run("worker", "--until-idle", env={"SENDONCE_DATABASE": url_of(older)})

    assert ran.code == 1
    known = len(available("sendonce.store.sqlite"))
    assert f"the database's schema is 1 and this program needs {known}; run: sendonce migrate" in ran.err


def test_script_for_other_tools_is_finished_by_migrate(older: Database) -> None:
    room = import_module(f"sendonce.store.{'postgres' if isinstance(older, PostgresDatabase) else 'sqlite'}.migrate")
    given_many_dead_letters(older, 20)
    with older.connection(autocommit=True) as connection:
        script = room.sql(1)
        connection.execute(script.encode()) if isinstance(older, PostgresDatabase) else connection.executescript(script)

    assert older.one(STATE) == "0/20"
    assert [each.done for each in migrated(older)] == [20]
    assert older.execute(WRONGLY_ROUTED) == []


def test_status_says_that_a_back_fill_is_not_finished(database: Database) -> None:
    database.execute("update sendonce_meta set value = '4000/120000' where name = 'backfill:0002_routed'")

    async def look() -> list[Backfill]:
        store = await open_store(url_of(database))
        try:
            return await store.backfills()
        finally:
            await store.close()

    assert asyncio.run(look()) == [Backfill("0002_routed", 4000, 120000)]
    said = run("status", env={"SENDONCE_DATABASE": url_of(database)}).out
    assert "back-fill     0002_routed has come to 4,000 of 120,000; go on with: sendonce migrate" in said
    migrated(database)
    assert "back-fill" not in run("status", env={"SENDONCE_DATABASE": url_of(database)}).out
