"""What can be wrong with a SQLite file, on a real one that it is wrong with."""

import asyncio
import os
import sqlite3
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import pytest

from sendonce.admin import doctor
from sendonce.admin.doctor import Level, examine
from sendonce.store.sqlite import doctor as sqlite_doctor
from tests.doctor.conftest import LIMITS, examined
from tests.given import given_due_deliveries, given_due_delivery
from tests.store.databases import SqliteDatabase


def test_journal_that_is_not_wal_is_said(file: SqliteDatabase) -> None:
    file.execute("pragma journal_mode = delete")

    assert list(examined(file)) == ["journal"]


def test_database_file_without_tables_is_reported_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "new.db").touch(mode=0o600)

    found = {each.name: each for each in asyncio.run(examine(f"sqlite:///{tmp_path / 'new.db'}", LIMITS))}

    assert [name for name, each in found.items() if each.level is not Level.OK] == ["schema"]
    assert found["schema"].sentence == "there are no sendonce tables"
    assert found["journal"].sentence == "the journal mode is delete; sendonce migrate makes it WAL"
    assert found.keys().isdisjoint({"references", "hosts"})


@pytest.mark.parametrize("end", ["", "-shm"])
def test_file_that_everybody_can_read_is_said(file: SqliteDatabase, end: str) -> None:
    with closing(sqlite3.connect(file.path)) as connection:
        connection.execute("update sendonce_meta set value = value")
        connection.commit()
        Path(f"{file.path}{end}").chmod(0o644)

        found = examined(file)

    assert (list(found), found["file"].level) == (["file"], Level.WARNING)
    assert "chmod" in found["file"].to_do


def test_file_that_a_group_shares_is_well(file: SqliteDatabase) -> None:
    file.path.chmod(0o660)

    assert examined(file) == {}


def test_write_ahead_log_that_somebody_keeps_growing_is_said(
    file: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LARGE_WAL", 1000)
    with closing(sqlite3.connect(file.path, isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select * from sendonce_meta").fetchall()
        file.execute("create table junk (text text)")
        for _ in range(40):
            file.execute("insert into junk values (?)", "x" * 20_000)

        found = examined(file)

    assert (list(found), found["journal"].level) == (["journal"], Level.WARNING)


def test_damaged_file_is_said(file: SqliteDatabase) -> None:
    given_due_deliveries(file, 50)
    file.execute("pragma wal_checkpoint(truncate)")
    root = file.one("select rootpage from sqlite_master where name = 'sendonce_deliveries_due'")
    with file.path.open("r+b") as stream:
        stream.seek((root - 1) * 4096 + 2000)
        stream.write(b"\x00" * 2000)

    found = examined(file)["integrity"]

    assert found.level is Level.PROBLEM
    assert "restore a backup" in found.to_do


@pytest.mark.parametrize("table", ["sendonce_meta", "sendonce_deliveries", "sqlite_schema"])
def test_database_file_that_is_damaged_is_reported_with_the_rest(file: SqliteDatabase, table: str) -> None:
    file.execute("pragma wal_checkpoint(truncate)")
    root = 1 if table == "sqlite_schema" else file.one(f"select rootpage from sqlite_master where name = '{table}'")
    with file.path.open("r+b") as stream:
        stream.seek((root - 1) * 4096 + (100 if root == 1 else 0))
        stream.write(b"\x09" * 400)

    found = examined(file)

    assert found["integrity"].level is Level.PROBLEM
    assert "file" not in found


def test_file_that_is_no_database_is_reported(file: SqliteDatabase) -> None:
    file.path.write_bytes(b"no database" * 1000)

    assert "not a database" in examined(file)["integrity"].sentence


def test_file_that_is_too_large_to_look_at_is_said_to_be(file: SqliteDatabase) -> None:
    with file.connection() as connection:
        connection.execute("create table junk (text text)")
        connection.executemany("insert into junk values (?)", [("x" * 3000,)] * 20_000)

    facts = asyncio.run(sqlite_doctor.examine(file.url, check_seconds=0))

    found = {each.name: each for each in doctor.diagnose_sqlite(facts, LIMITS)}
    assert "too large" in found["integrity"].sentence


def test_rows_of_a_subscription_that_is_not_there_are_said(file: SqliteDatabase) -> None:
    file.execute("insert into sendonce_subscription_types (tenant, pattern, subscription_id) values ('', 'a', 7)")

    assert list(examined(file)) == ["references"]


@pytest.mark.parametrize(("free", "level"), [(500, Level.WARNING), (50, Level.PROBLEM)])
def test_disk_that_is_nearly_full_is_said(
    file: SqliteDatabase, free: int, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**12, 0, free * 2**20))

    assert {name: each.level for name, each in examined(file).items()} == {"space": level}


def test_file_system_of_the_network_is_said(
    file: SqliteDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/export {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(sqlite_doctor, "_MOUNTS", mounts)

    assert list(examined(file)) == ["place"]


def test_workers_of_two_hosts_are_said(file: SqliteDatabase) -> None:
    now = file.microseconds()
    for name in ("one:1", "one:2", "two:1"):
        file.execute(
            "insert into sendonce_workers (name, version, concurrency, started_at, seen_at) values (?, '1', 1, ?, ?)",
            name, now, now,
        )  # fmt: skip

    assert "one and two" in examined(file)["hosts"].sentence


@pytest.mark.parametrize(("table", "column"), [("deliveries", "created_at"), ("workers", "seen_at")])
def test_clock_that_was_set_back_is_said(file: SqliteDatabase, table: str, column: str) -> None:
    now = file.microseconds()
    given_due_delivery(file)
    file.execute(
        "insert into sendonce_workers (name, version, concurrency, started_at, seen_at) values ('a:1', '1', 1, ?, ?)",
        now, now,
    )  # fmt: skip
    file.execute(f"update sendonce_{table} set {column} = {column} + 3600000000")

    assert examined(file)["clock"].sentence.startswith("the database's clock is 1h ahead")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everything")
def test_file_that_this_user_may_not_write_is_said(file: SqliteDatabase) -> None:
    file.path.chmod(0o444)

    assert "file" in examined(file)


def test_file_without_our_tables_is_said(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table other (id integer)")

    (tmp_path / "other.db").chmod(0o600)
    assert list(examined(SqliteDatabase(tmp_path / "other.db"))) == ["schema"]
