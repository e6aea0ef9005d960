"""Addresses, databases in memory, and what a file must be to be opened."""

import os
import sqlite3
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from sendonce.errors import ConfigError, SchemaMismatch, StoreError
from sendonce.outbox.outbox import Outbox
from sendonce.store.migrations import available
from sendonce.store.sqlite import migrate as sqlite_migrate
from sendonce.store.sqlite.connection import PACKAGE, parse_url
from sendonce.store.sqlite.store import SqliteStore
from tests.given import HOLD, WORKER, given_due_delivery, given_lease
from tests.store.databases import SqliteDatabase


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///books/notes.db", "books/notes.db"),
        ("sqlite:////var/notes.db", "/var/notes.db"),
        ("notes.db", "notes.db"),
        ("sqlite://", ":memory:"),
        ("sqlite:///", ":memory:"),
        ("sqlite:///:memory:", ":memory:"),
        (":memory:", ":memory:"),
    ],
)
def test_address_names_a_file_or_memory(url: str, path: str) -> None:
    assert parse_url(url) == path


@pytest.mark.parametrize("url", ["sqlite:notes.db", "sqlite:/notes.db", "sqlite://notes.db", "a\0b"])
def test_address_that_names_nothing_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        parse_url(url)


@pytest.mark.parametrize("inline", [False, True])
async def test_database_in_memory_has_its_tables_and_works(inline: bool) -> None:
    store = await SqliteStore.connect("sqlite://", inline=inline)
    outbox = Outbox()
    await store.transact(lambda connection: outbox.publish(connection, "a.b", {}, key="k", to="null:a"))

    lease = await given_lease(store)

    assert [claim.key for claim in lease.claims] == ["k"]
    assert (await store.status()).in_flight == 1
    await store.close()


async def test_databases_in_memory_are_separate() -> None:
    one, other = await SqliteStore.connect(":memory:"), await SqliteStore.connect(":memory:")
    await one.stop("all", "", operator="ada", reason=None)

    assert len((await one.status()).stops) == 1
    assert (await other.status()).stops == ()
    await one.close()
    await other.close()


async def test_calls_inline_stay_in_the_callers_thread(database: SqliteDatabase) -> None:
    inline = await SqliteStore.connect(database.url, inline=True)
    hopping = await SqliteStore.connect(database.url)

    assert await inline.transact(lambda _: threading.get_ident()) == threading.get_ident()
    assert await hopping.transact(lambda _: threading.get_ident()) != threading.get_ident()
    await inline.close()
    await hopping.close()


async def test_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match="sendonce migrate"):
        await SqliteStore.connect(f"sqlite:///{tmp_path}/none.db")

    assert os.listdir(tmp_path) == []


async def test_file_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table notes (id integer)")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(SchemaMismatch, match="no sendonce tables"):
        await SqliteStore.connect(str(path))

    assert path.read_bytes() == before


async def test_file_that_is_not_a_database_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Ada, " * 1000)

    with pytest.raises(StoreError, match="not a SQLite database"):
        await SqliteStore.connect(str(path))


async def test_file_name_may_have_odd_characters(tmp_path: Path) -> None:
    path = tmp_path / "50% of #1?.db"
    await sqlite_migrate.migrate(f"sqlite:///{path}")
    store = await SqliteStore.connect(f"sqlite:///{path}")

    assert path.exists()
    assert (await store.status()).schema_version == len(available(PACKAGE))
    await store.close()


async def test_store_that_is_closed_says_so_and_can_be_closed_again(store: SqliteStore) -> None:
    await store.close()
    await store.close()

    with pytest.raises(StoreError, match="closed"):
        await store.status()


async def test_file_is_durable_and_rules_are_on(store: SqliteStore) -> None:
    def read(connection: sqlite3.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return [connection.execute(f"pragma {name}").fetchone()[0] for name in names]

    assert await store.transact(read) == ["wal", 2, 1, 5000]


async def test_times_all_come_from_the_clock_that_was_given(database: SqliteDatabase, store: SqliteStore) -> None:
    given_due_delivery(database)
    database.advance(timedelta(days=1000))
    started = await store.start(WORKER, 1, HOLD)

    assert started.lease is not None
    at = database.one("select created_at from sendonce_attempts")
    assert abs(at - database.microseconds()) < timedelta(minutes=1) // timedelta(microseconds=1)
    assert (await store.status()).now - database.now() < timedelta(minutes=1)
