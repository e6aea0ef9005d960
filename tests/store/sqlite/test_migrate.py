"""Migrations: twice, from two processes at once, printed, and read without making anything."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from sendonce.errors import SchemaMismatch
from sendonce.store.migrations import available
from sendonce.store.sqlite import migrate as sqlite_migrate
from sendonce.store.sqlite.connection import PACKAGE
from sendonce.store.sqlite.store import SqliteStore
from tests.processes import SECONDS
from tests.store.databases import SqliteDatabase

ALL = [each.name for each in available(PACKAGE)]
KNOWN = len(ALL)
# Says when it is ready, waits for the word, migrates, and prints what it has applied.
MIGRATE = """
import asyncio, sys
from sendonce.store.sqlite import migrate as sqlite_migrate
from sendonce.store.sqlite.connection import PACKAGE
print("ready", flush=True)
sys.stdin.readline()
print(asyncio.run(sqlite_migrate.migrate(sys.argv[1])), flush=True)
"""
PRINTED = "select type, name, sql from sqlite_master where name not like 'sqlite_%' order by name"


def schema_of(path: Path) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(PRINTED).fetchall()
    finally:
        connection.close()


async def test_migrate_twice_applies_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"

    assert await sqlite_migrate.schema_version(url) == 0
    assert await sqlite_migrate.migrate(url) == ALL
    assert await sqlite_migrate.migrate(url) == []
    assert await sqlite_migrate.schema_version(url) == KNOWN


@pytest.mark.parametrize("round", range(3))
def test_processes_that_migrate_at_once_apply_once(tmp_path: Path, round: int) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", MIGRATE, url], **pipes) for _ in range(3)]  # type: ignore[call-overload]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=SECONDS)[0].strip() for process in processes]

    assert sorted(answers) == [str(ALL), "[]", "[]"]


async def test_migration_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("create table sendonce_workers (id integer)")
    connection.close()

    with pytest.raises(Exception, match="SQLite failed"):
        await sqlite_migrate.migrate(str(path))

    assert [name for _, name, _ in schema_of(path)] == ["sendonce_workers"]


async def test_printed_script_makes_the_same_schema(tmp_path: Path, database: SqliteDatabase) -> None:
    path = tmp_path / "printed.db"
    connection = sqlite3.connect(path)
    connection.executescript(sqlite_migrate.sql())
    connection.close()

    assert schema_of(path) == schema_of(database.path)
    assert await sqlite_migrate.schema_version(str(path)) == KNOWN
    assert await sqlite_migrate.migrate(str(path)) == []


def test_migrate_prints_nothing_when_nothing_is_missing() -> None:
    assert sqlite_migrate.sql(from_version=KNOWN) == ""


async def test_schema_that_is_too_new_is_refused_and_the_next_one_is_not(database: SqliteDatabase) -> None:
    database.execute("update sendonce_meta set value = ? where name = 'schema_version'", str(KNOWN + 1))
    store = await SqliteStore.connect(database.url)
    assert (await store.status()).schema_version == KNOWN + 1
    await store.close()

    database.execute("update sendonce_meta set value = ? where name = 'schema_version'", str(KNOWN + 2))
    with pytest.raises(SchemaMismatch, match="too new"):
        await SqliteStore.connect(database.url)


async def test_version_is_read_without_making_a_file(tmp_path: Path) -> None:
    assert await sqlite_migrate.schema_version(f"sqlite:///{tmp_path}/none.db") == 0
    assert os.listdir(tmp_path) == []
