"""A store on the caller's connection: its verbs belong to the caller's transaction, sync or async."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sendonce import ConfigError, NotAllowed, NotFound, SchemaMismatch, compose
from sendonce.sql.steps import run_sync
from sendonce.store.callers import store_on
from tests.outbox.callers import Caller
from tests.outbox.databases import Address, sqlite_connection
from tests.testing.conftest import ALL, OPENERS


def migrated_database(request: pytest.FixtureRequest, folder: Path, database: str) -> Address:
    """A database that has our tables."""
    if database == "sqlite":
        address = Address(f"sqlite:///{folder / 'store.sqlite'}", "sqlite")
    else:
        address = Address(request.getfixturevalue("pg_dsn"), "postgresql")
    compose.migrate(address.url)
    return address


@pytest.fixture(params=ALL)
def migrated(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Address]:
    """A kind of connection and such a database."""
    kind, database = request.param
    return kind, migrated_database(request, tmp_path, database)


async def stop(store: Any, value: str) -> None:
    await store.stop("destination", value, operator="ada", reason="a test")


async def test_verb_belongs_to_the_callers_transaction(migrated: tuple[str, Address]) -> None:
    kind, address = migrated
    async with OPENERS[kind](address) as caller:
        store = await store_on(caller.connection)
        await stop(store, "https://a.example/")
        await caller.end("rollback")
        await stop(store, "https://b.example/")
        await caller.end("commit")
        await stop(store, "https://c.example/")
        seen = [each.value for each in (await store.status()).stops]
        await caller.end("rollback")

    assert seen == ["https://b.example/", "https://c.example/"]
    assert address.look("select value from sendonce_stops") == [("https://b.example/",)]


async def test_verb_that_fails_is_undone_alone(migrated: tuple[str, Address]) -> None:
    kind, address = migrated
    async with OPENERS[kind](address) as caller:
        store = await store_on(caller.connection)
        await stop(store, "https://a.example/")
        with pytest.raises(NotFound):
            await store.resume("destination", "https://b.example/", operator="ada")
        with pytest.raises(NotAllowed):
            await store.stop("no such scope", "x", operator="ada", reason=None)
        await caller.end("commit")

    assert address.look("select value from sendonce_stops") == [("https://a.example/",)]


@pytest.mark.parametrize("migrated", [each for each in ALL if "sqlalchemy" not in str(each.id)], indirect=True)
async def test_verb_on_a_connection_that_commits_by_itself_is_a_transaction(migrated: tuple[str, Address]) -> None:
    kind, address = migrated
    async with OPENERS[kind](address, autocommit=True) as caller:
        store = await store_on(caller.connection)
        await stop(store, "https://a.example/")

        assert address.look("select value from sendonce_stops") == [("https://a.example/",)]


def opened_sync(address: Address) -> Any:
    return sqlite_connection(address) if address.dialect == "sqlite" else psycopg.connect(address.url)


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_sync_connection_needs_no_event_loop(request: pytest.FixtureRequest, tmp_path: Path, database: str) -> None:
    address = migrated_database(request, tmp_path, database)
    with closing(opened_sync(address)) as connection:
        store = run_sync(store_on(connection))
        run_sync(store.stop("destination", "https://a.example/", operator="ada", reason=None))

        assert [each.value for each in run_sync(store.status()).stops] == ["https://a.example/"]
        connection.rollback()
        assert run_sync(store.status()).stops == ()


async def test_reader_leaves_no_transaction_open_on_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    await compose.amigrate(url)
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as connection:
        store = await store_on(connection)
        await store.status()

        assert not connection.in_transaction


async def test_verb_with_a_snapshot_of_its_own_is_refused(migrated: tuple[str, Address]) -> None:
    kind, address = migrated
    async with OPENERS[kind](address) as caller:
        store = await store_on(caller.connection)
        with pytest.raises(ConfigError, match="this check needs a connection of its own"):
            await store.verify_facts()


async def test_connection_without_tables_is_refused(caller: Caller) -> None:
    with pytest.raises(SchemaMismatch, match="run: sendonce migrate"):
        await store_on(caller.connection)
