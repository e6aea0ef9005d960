"""A filled database is migrated under running programs of the version before: nothing is lost, nothing doubled."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from sendonce.checkpoints import MIGRATING
from sendonce.compose import migrate
from sendonce.store.migrations import available
from sendonce.store.postgres import grants
from tests.crash import killing
from tests.crash.accounts import url_of
from tests.processes import Process, until
from tests.provider import Provider
from tests.servers.postgres import Server
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase
from tests.store.postgres.catalog import catalog
from tests.upgrade import filling, migrating
from tests.upgrade.releases import NEWEST, after, before
from tests.upgrade.system import WRONGLY_ROUTED, System

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MIGRATIONS = available("sendonce.store.postgres")
INBOX = 4
RIGHTS = (
    "select c.relname, a.grantee::regrole::text, a.privilege_type, '' from pg_class c, aclexplode(c.relacl) a"
    " where c.relname like 'sendonce%%' union all"
    " select c.relname, a.grantee::regrole::text, a.privilege_type, t.attname from pg_attribute t"
    " join pg_class c on c.oid = t.attrelid, aclexplode(t.attacl) a where c.relname like 'sendonce%%'"
    " order by 1, 2, 3, 4"
)


# The newest migration with every change; those before it, which are frozen, in `make test-more`.
STEPS = [
    pytest.param(number, id=f"{number:04}", marks=[pytest.mark.more] if number < NEWEST else [])
    for number in range(2, NEWEST + 1)
]


@pytest.fixture(params=STEPS)
def system(request: pytest.FixtureRequest, empty: Database, provider: Provider, tmp_path: Path) -> Iterator[System]:
    old, new = before(request.param, tmp_path / "old"), after(request.param, tmp_path / "new")
    made = System(empty, provider, tmp_path, old=old, new=new, migration=MIGRATIONS[request.param - 1])
    made.fill()
    yield made
    made.scene.leave()


def test_filled_database_is_migrated_under_running_programs(system: System, tmp_path: Path) -> None:
    finished = system.finished()
    check_that_every_state_is_there(system)

    with ExitStack() as running:
        workers = [running.enter_context(system.worker(system.old)) for _ in range(2)]
        publishers = [running.enter_context(system.publisher(system.old, "old"))]
        system.goes_on("by old workers on the old schema")
        system.check_that_a_migration_steps_back()
        for point in [each for each in MIGRATING if system.migration.backfill or "backfill" not in each]:
            with system.migrate(**{killing.POINT: point, killing.PASS: "2" if "backfill" in point else "1"}) as victim:
                assert victim.ended() == -signal.SIGKILL, point
            system.goes_on(f"after a migration that died at {point}")
        if system.migration.backfill:
            check_that_claims_go_on_during_the_back_fill(system, tmp_path)
        else:
            system.command(system.new, "migrate")
        workers += [running.enter_context(system.worker(system.new)) for _ in range(2)]
        publishers.append(running.enter_context(system.publisher(system.new, "new")))
        for publisher in publishers:
            until(lambda: len(publisher.lines) > 5, "events of both publishers")  # noqa: B023
        workers[0].kill()
        workers[2].kill()
        system.goes_on("by those that are left, old and new", 40)
        for publisher in publishers:
            publisher.send(signal.SIGTERM)
            assert publisher.ended() == 0, publisher.said
        system.let_everything_end()
        for worker in (workers[1], workers[3]):
            worker.send(signal.SIGTERM)
            assert worker.ended() == 0, worker.said
            assert worker.count("Traceback") == 0, worker.said
    said = system.command(system.new, "migrate")

    assert "back-filled" in said or not system.migration.backfill
    assert system.database.execute(WRONGLY_ROUTED) == []
    check_that_what_was_finished_is_unchanged(system, finished)
    check_that_older_rows_say_nothing_of_the_inbox(system)
    check_that_all_that_was_recorded_arrived_once(system, publishers)
    assert all(each["done"] == each["bound"] for each in system.command(system.new, "status", "--json")["backfills"])


def check_that_every_state_is_there(system: System) -> None:
    rows = system.database.rows("deliveries")
    assert {row["status"] for row in rows} == {"Completed", "DeadLettered", "PendingRetry", "Pending"}
    assert sum(bool(row["in_doubt"]) for row in rows) == filling.FEW
    assert sum(row["parked_on"] is not None for row in rows) == filling.FEW
    assert {row["generation"] for row in rows} == {0, 1}
    assert {row["corrections"] for row in rows} == {0, 1}
    assert len(system.database.rows("requests")) == 2
    assert len(system.database.rows("events")) > filling.MANY


def check_that_claims_go_on_during_the_back_fill(system: System, folder: Path) -> None:
    """Two at once: while a step's transaction is open, or on SQLite, which has one writer, between two steps."""
    point = "backfill.before_commit" if isinstance(system.database, PostgresDatabase) else "backfill.after_commit"
    gate = folder / "gate"
    halting = {migrating.HALT: point, migrating.GATE: str(gate)}
    with system.migrate(**halting) as one, system.migrate(**halting) as other:
        until(lambda: one.count("halted") + other.count("halted"), "a step of a back-fill")
        system.goes_on("while a back-fill stands still", 50)
        gate.touch()
        assert [one.ended(), other.ended()] == [0, 0], one.said + other.said


def check_that_what_was_finished_is_unchanged(system: System, before: dict[str, list[tuple[object, ...]]]) -> None:
    after = system.finished()
    for name, rows in before.items():
        assert set(map(repr, rows)) <= set(map(repr, after[name])), name


def check_that_older_rows_say_nothing_of_the_inbox(system: System) -> None:
    """Receipts were never seen again, no receiver can be asked, and nothing waits at a consumer."""
    if system.migration.number < INBOX:
        return
    [receipt] = system.database.rows("receipts")
    assert (receipt["consumer"], receipt["message_id"]) == filling.RECEIPT
    assert (receipt["seen_at"], receipt["duplicates"]) == (None, None)
    assert {row["ask"] for row in system.database.rows("subscriptions")} == {None}
    assert [system.database.rows(each) for each in ("messages", "tries", "evidence")] == [[], [], []]


def check_that_all_that_was_recorded_arrived_once(system: System, publishers: list[Process]) -> None:
    said = [key for publisher in publishers for line in publisher.lines for key in json.loads(line)]
    assert len(said) == len(set(said)) > 20
    recorded = {row["key"]: row["id"] for row in system.database.rows("events")}
    assert set(said) <= recorded.keys()
    rows = system.database.rows("deliveries")
    assert {row["status"] for row in rows if row["event_id"] in {recorded[key] for key in said}} == {"Completed"}
    assert {row["status"] for row in rows} == {"Completed", "DeadLettered"}
    messages = [each for each in system.provider.messages().values() if each["path"].startswith(system.scene.path)]
    assert [each for each in messages if each["count"] > 1] == []
    arrived = sorted(each["path"] for each in messages if each["count"])
    assert arrived == sorted(paths_of(system, [row for row in rows if row["status"] == "Completed"]))


def paths_of(system: System, rows: list[dict[str, object]]) -> list[str]:
    """Where the provider must have got these deliveries."""
    own = {f"subscription:{row['id']}": row["destination"] for row in system.database.rows("subscriptions")}
    addresses = [str(own.get(str(row["destination"]), row["destination"])) for row in rows]
    return [each.removeprefix(system.provider.url) for each in addresses if each.startswith(system.provider.url)]


def test_upgraded_database_is_like_a_new_one(system: System, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    prefix = f"u{uuid4().hex[:10]}_"
    if isinstance(system.database, SqliteDatabase):
        new: Database = SqliteDatabase(tmp_path / "new.db")
        migrate(url_of(new))
        system.command(system.new, "migrate")
        migrate(url_of(system.database))  # and whatever came after it
        question = "select type, name, sql from sqlite_master where name not like 'sqlite_%' order by name"

        assert system.database.execute(question) == new.execute(question)
        return
    server: Server = request.getfixturevalue("postgres_server")
    name = server.create_database()
    fresh = PostgresDatabase(server.dsn(name))
    migrate(fresh.url)
    assert isinstance(system.database, PostgresDatabase)
    system.command(system.new, "migrate")
    migrate(system.database.url)
    for each in (fresh, system.database):
        with psycopg.connect(each.url, autocommit=True) as connection:
            connection.execute(grants.sql(prefix).encode())

    try:
        assert catalog(system.database) == catalog(fresh)
        assert system.database.execute(RIGHTS) == fresh.execute(RIGHTS) != []
    finally:
        server.drop_database(name)
