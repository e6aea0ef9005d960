"""What can be wrong with a PostgreSQL, on a real one that it is wrong with."""

import asyncio
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from sendonce.admin import doctor
from sendonce.admin.advice import MIGRATE
from sendonce.admin.doctor import Level, examine
from sendonce.store.postgres import grants
from tests.crash.clocks import MovedClock
from tests.doctor.conftest import LIMITS, Own, examined
from tests.processes import ROOT, until
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase

AT_ONCE = timedelta(0)


@pytest.fixture
def our_roles(own: Own) -> Own:
    with psycopg.connect(own.database.url, autocommit=True) as connection:
        connection.execute(grants.sql().encode())
    return own


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_server_that_may_lose_everything_is_said(own: Own, setting: str) -> None:
    own.set(setting, "off")
    until(lambda: own.database.one(f"select current_setting('{setting}')") == "off", "the setting")

    found = examined(own.database)

    assert list(found) == ["durability"]
    assert found["durability"].sentence.startswith(f"{setting} is off")


@pytest.mark.parametrize("setting", ["autovacuum", "track_counts"])
def test_server_that_does_not_vacuum_by_itself_is_said(own: Own, setting: str) -> None:
    own.set(setting, "off")
    until(lambda: own.database.one(f"select current_setting('{setting}')") == "off", "the setting")

    assert list(examined(own.database)) == ["autovacuum"]


def test_settings_of_another_database_are_not_reported(own: Own, own_server: tuple[Server, str]) -> None:
    server, template = own_server
    other = server.create_database(template=template)
    own.database.execute(f"alter database {other} set synchronous_commit = off")

    found = examined(own.database)

    server.drop_database(other)
    assert found == {}


@pytest.mark.parametrize("value", ["off", "local"])
def test_commits_that_do_not_wait_for_the_disk_are_said(own: Own, value: str) -> None:
    name = own.database.one("select current_database()")
    own.database.execute(f"alter database {name} set synchronous_commit = {value}")

    found = examined(own.database)

    assert (list(found), found["commits"].level) == (["commits"], Level.PROBLEM)
    assert "this session and every role" in found["commits"].sentence
    assert found["commits"].to_do.endswith("alter database … set synchronous_commit = on")


def test_role_whose_commits_do_not_wait_is_named_with_what_to_do(own: Own) -> None:
    own.database.execute('create role "Careless"')
    own.database.execute('alter role "Careless" set synchronous_commit = off')

    found = examined(own.database)

    own.database.execute('drop role "Careless"')
    assert list(found) == ["commits"]
    assert found["commits"].to_do.endswith(': alter role "Careless" reset synchronous_commit')


def test_database_that_only_reads_is_said(own: Own) -> None:
    name = own.database.one("select current_database()")
    own.database.execute(f"alter database {name} set default_transaction_read_only = on")

    assert list(examined(own.database)) == ["writable"]


def test_transaction_that_holds_vacuum_back_is_reported_by_its_pid(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "HELD_WRONG", AT_ONCE)
    with own.database.connection() as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select 'secret' from sendonce_events")

        found = examined(own.database)

        assert (list(found), found["vacuum"].level) == (["vacuum"], Level.PROBLEM)
        assert f"transaction {connection.info.backend_pid} holds vacuum back" in found["vacuum"].sentence
        assert "secret" not in str(found)


def test_forgotten_prepared_transaction_is_said(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "HELD_DOUBTFUL", AT_ONCE)
    connection = psycopg.connect(own.database.url)
    connection.tpc_begin("forgotten")
    connection.execute("delete from sendonce_counters")
    connection.tpc_prepare()
    connection.close()

    found = examined(own.database)

    with psycopg.connect(own.database.url, autocommit=True) as other:
        for xid in other.tpc_recover():
            other.tpc_rollback(xid)
    assert list(found) == ["vacuum"]
    assert "prepared transaction" in found["vacuum"].sentence


def test_replication_slot_that_nobody_uses_is_said(own: Own) -> None:
    own.database.execute("select pg_create_logical_replication_slot('left_behind', 'pgoutput')")

    found = examined(own.database)

    own.database.execute("select pg_drop_replication_slot('left_behind')")
    assert "unused replication slot left_behind holds vacuum back" in found["vacuum"].sentence


def test_tables_that_are_not_vacuumed_are_said(own: Own) -> None:
    own.database.execute("alter table sendonce_attempts set (autovacuum_enabled = off)")

    assert "sendonce_attempts" in examined(own.database)["autovacuum"].sentence


def test_dead_rows_and_empty_room_are_said(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DEAD_ROWS", 1000)
    monkeypatch.setattr(doctor, "BLOATED_BYTES", 100_000)
    database = own.database
    database.execute("alter table sendonce_counters set (autovacuum_enabled = off)")
    database.execute("insert into sendonce_counters (name, amount) select 'x', 1 from generate_series(1, 5000)")
    database.execute("delete from sendonce_counters where id < 4990")

    def said_after(command: str) -> str:
        database.execute(command)
        found = examined(database).get("bloat")
        return found.sentence if found else ""

    # What a session has counted reaches the statistics some time after it has ended.
    until(
        lambda: "sendonce_counters (4,989 dead of 5,000)" in said_after("analyze sendonce_counters"),
        "the dead rows to be said",
    )
    until(
        lambda: said_after("vacuum analyze sendonce_counters").startswith("mostly empty: sendonce_counters"),
        "the empty room to be said",
    )


def test_connections_too_few_for_another_worker_are_reported(own: Own) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(psycopg.connect(own.database.url))

        assert examined(own.database)["connections"].level is Level.WARNING


def test_workers_beyond_the_servers_connections_are_reported(own: Own) -> None:
    own.database.execute(
        "insert into sendonce_workers (name, version, concurrency)"
        " select 'host:' || n, '1', 1 from generate_series(1, 9) n"
    )

    found = examined(own.database)["connections"]

    assert (found.level, "9 workers want 72" in found.sentence) == (Level.PROBLEM, True)


def test_rights_that_a_role_of_ours_has_lost_are_said(our_roles: Own) -> None:
    assert examined(our_roles.database) == {}
    our_roles.database.execute("revoke insert on sendonce_attempts from sendonce_orchestrator")
    our_roles.database.execute("revoke select (tenant) on sendonce_events from sendonce_reader")
    our_roles.database.execute("revoke execute on function sendonce_park from sendonce_orchestrator")

    found = asyncio.run(examine(our_roles.database.url, LIMITS))

    assert [each.sentence for each in found if each.name == "rights"] == [
        "role sendonce_orchestrator lacks insert on sendonce_attempts and execute on "
        "sendonce_park(bigint[], text[], text[], text)",
        "role sendonce_reader lacks select on sendonce_events",
    ]


def test_role_that_may_plant_functions_beside_our_tables_is_reported(our_roles: Own) -> None:
    """Everybody may, by default, up to PostgreSQL 14."""
    database = our_roles.database
    assert examined(database) == {}
    database.execute("grant create on schema public to public, sendonce_app")

    found = examined(database)["rights"]

    assert found.level is Level.WARNING
    assert found.sentence.startswith("public and sendonce_app may create functions in schema public: what is planted")
    assert found.to_do == "revoke create on schema public from public, sendonce_app"
    database.execute(found.to_do)
    assert examined(database) == {}


def test_owner_of_the_tables_may_create_in_a_schema_that_is_not_theirs(own: Own) -> None:
    role = f"owner_{uuid4().hex[:10]}"
    own.database.execute(f"create role {role}")
    own.database.execute(f"grant create on schema public to {role}")
    said = examined(own.database)["rights"].sentence
    own.database.execute(f"alter table sendonce_meta owner to {role}")

    found = examined(own.database)

    own.database.execute(f"reassign owned by {role} to current_user; drop owned by {role}; drop role {role}")
    assert role in said
    assert found == {}


def test_database_that_our_roles_were_not_made_for_lacks_nothing(
    our_roles: Own, own_server: tuple[Server, str]
) -> None:
    server, template = own_server
    other = server.create_database(template=template)

    found = examined(PostgresDatabase(server.dsn(other)))

    server.drop_database(other)
    assert found == {}


def test_role_without_rights_is_told_which_are_missing(own: Own) -> None:
    own.database.execute(
        "do $$ begin if to_regrole('nobody_here') is null then create role nobody_here; end if; end $$"
    )

    found = examined(PostgresDatabase(f"{own.database.url}?options=-c%20role%3Dnobody_here"))

    assert list(found) == ["schema", "rights"]
    assert "role nobody_here lacks select on sendonce_meta" in found["rights"].sentence


def test_role_with_some_rights_is_told_what_is_missing(our_roles: Own) -> None:
    found = examined(PostgresDatabase(f"{our_roles.database.url}?options=-c%20role%3Dsendonce_app"))

    assert list(found) == ["rights"]
    assert "role sendonce_app lacks select on" in found["rights"].sentence


def test_M10_reader_may_run_it(our_roles: Own) -> None:
    found = examined(PostgresDatabase(f"{our_roles.database.url}?options=-c%20role%3Dsendonce_reader"))

    assert found == {}


def test_database_without_our_tables_is_said(own_server: tuple[Server, str]) -> None:
    server, _ = own_server

    found = examined(PostgresDatabase(server.dsn("postgres")))

    assert {name: each.advice for name, each in found.items()} == {"schema": (MIGRATE,)}


@pytest.mark.parametrize(("seconds", "said"), [(3630, "behind"), (-3630, "ahead of")])
def test_clock_that_is_not_the_servers_is_said(own: Own, tmp_path: Path, seconds: int, said: str) -> None:
    moved = MovedClock(tmp_path / "clock", seconds).environment

    ran = subprocess.run(
        [sys.executable, "-m", "sendonce", "doctor"], cwd=ROOT, capture_output=True, text=True, timeout=50,
        env={**os.environ, **moved, "SENDONCE_DATABASE": own.database.url},
    )  # fmt: skip

    assert ran.returncode == 1, ran.stderr
    assert re.search(f"problem  clock: the database's clock is 1h.* {said} this machine's", ran.stdout), ran.stdout
