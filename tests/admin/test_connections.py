"""An Admin on the caller's connection: its verbs are a part of the caller's transaction, on every driver."""

import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pytest

from sendonce import Admin, ConfigError, NotAllowed, NotFound, SchemaMismatch, SendonceError, TenantAdmin
from sendonce.store.ports import Store
from tests.admin.calls import OPERATORS, SHARED, Ids
from tests.admin.planted import OPERATOR, planted, tables_of
from tests.crash.accounts import url_of
from tests.outbox.callers import SQLITE, Caller
from tests.outbox.conftest import Kind, kind, migrated_postgres, postgres_address, sqlite_address
from tests.outbox.databases import Address, recording
from tests.store.conftest import database, postgres_template, sqlite_template, store
from tests.store.databases import Database, SqliteDatabase

__all__ = [
    "database", "kind", "migrated_postgres", "postgres_address", "postgres_template",
    "sqlite_address", "sqlite_template", "store",
]  # fmt: skip

# What needs transactions of its own, or waits for what others commit.
REFUSED = {
    "audit", "begin_operation", "doctor", "doubt", "erase", "matches", "nothing_lost", "preview_erase",
    "preview_operation", "preview_prune", "prune", "reconcile", "reencrypt_secrets", "run_operation", "schema_version",
    "verify", "wait_for_request",
}  # fmt: skip


async def admin_on(caller: Caller) -> Admin:
    if caller.is_async:
        return await Admin.aon(caller.connection, operator="ada")
    return Admin.on(caller.connection, operator="ada")


async def done(admin: Admin | TenantAdmin, caller: Caller, verb: str, *args: object, **kwargs: object) -> Any:
    """What a verb returns on this connection, awaited where that is async."""
    if caller.is_async:
        return await getattr(admin, f"a{verb}")(*args, **kwargs)
    return getattr(admin, verb)(*args, **kwargs)


async def cancelled(admin: Admin, caller: Caller, key: str) -> None:
    """Record an event and cancel its delivery, in one transaction."""
    published = await caller.publish("memo.created", {}, key=key, to="null:a")
    [delivery] = await done(admin, caller, "deliveries_of", published.event_id)
    [told] = await done(admin, caller, "cancel", [delivery.id], reason="a mistake")
    assert told.done


async def test_verb_belongs_to_the_callers_transaction(kind: Kind) -> None:
    seen = "select e.key, d.status from sendonce_events e join sendonce_deliveries d on d.event_id = e.id"
    async with kind.open(kind.address) as caller:
        admin = await admin_on(caller)
        await cancelled(admin, caller, "first")
        assert kind.address.look(seen) == []
        await caller.end("rollback")
        await cancelled(admin, caller, "second")
        await caller.end("commit")
        await cancelled(admin, caller, "third")
        assert [each.key for each in await done(admin, caller, "events")] == ["third", "second"]
        await caller.end("rollback")

    assert kind.address.look(seen) == [("second", "DeadLettered")]
    logged = kind.address.look("select kind, operator, reason from sendonce_operations")
    assert logged == [("cancel", "ada", "a mistake")]


async def test_verb_that_fails_leaves_the_transaction_as_it_was(kind: Kind) -> None:
    async with kind.open(kind.address) as caller:
        admin = await admin_on(caller)
        published = await caller.publish("memo.created", {}, key="1", to="null:a")
        with pytest.raises(NotFound, match="there is no dead letter 99"):
            await done(admin, caller, "requeue", [99], reason="again")
        [delivery] = await done(admin, caller, "deliveries_of", published.event_id)
        with pytest.raises(NotAllowed, match="only a finished one can be replayed"):
            await done(admin, caller, "replay", [delivery.id], reason="again")
        with pytest.raises(Exception, match=r"refused a value|there is no event"):
            await done(admin, caller, "event", 2**70)  # the database refuses the statement itself
        await caller.end("commit")

    assert kind.address.count("sendonce_events") == 1


@pytest.mark.parametrize("name", ["sqlite3", "aiosqlite"])
async def test_verb_that_needs_transactions_of_its_own_is_refused(sqlite_address: Address, name: str) -> None:
    async with SQLITE[name](sqlite_address) as caller:
        admin = await admin_on(caller)
        await caller.publish("memo.created", {}, key="1", to="null:a")

        for verb in sorted(REFUSED):
            with pytest.raises(NotAllowed) as refusal:
                await done(admin, caller, verb)
            assert str(refusal.value) == (
                f"{verb} needs transactions of its own, so it cannot be a part of yours; open an Admin on the"
                " database's address for it"
            )

        assert len(await done(admin, caller, "events")) == 1


def opened(database: Database) -> Any:
    url = url_of(database)
    return sqlite3.connect(database.path) if isinstance(database, SqliteDatabase) else psycopg.connect(url)


async def test_verb_works_or_is_refused_and_never_commits(database: Database, store: Store) -> None:
    async with Admin.aopen(url_of(database), operator=OPERATOR) as operator:
        await planted(database, store, operator)
    before, ids = tables_of(database), Ids.of(database)
    refused, done = set(), set()

    with closing(opened(database)) as connection:
        admin = Admin.on(connection, operator="ada")
        for name, calls in (SHARED | OPERATORS).items():
            for args, kwargs in calls.of(ids):
                try:
                    getattr(admin, name)(*args, **kwargs)
                except SendonceError as error:
                    if "needs transactions of its own" in str(error):
                        refused.add(name)
                else:
                    done.add(name)
            connection.rollback()

    assert refused == REFUSED
    assert done == (SHARED | OPERATORS).keys() - REFUSED
    assert tables_of(database) == before


@pytest.mark.parametrize("name", ["sqlite3", "aiosqlite"])
async def test_tenant_has_a_view_on_the_callers_connection_too(sqlite_address: Address, name: str) -> None:
    async with SQLITE[name](sqlite_address) as caller:
        for tenant in ("acme", "globex"):
            await caller.publish("memo.created", {}, key="1", to="null:a", tenant=tenant)

        found = await done((await admin_on(caller)).for_tenant("acme"), caller, "events")

        assert [each.tenant for each in found] == ["acme"]


async def test_async_connection_is_told_to_be_awaited(sqlite_address: Address) -> None:
    async with SQLITE["aiosqlite"](sqlite_address) as caller:
        with pytest.raises(ConfigError, match=r"^aiosqlite.Connection is async: say `await Admin.aon\(…\)`"):
            Admin.on(caller.connection, operator="ada")
        admin = await Admin.aon(caller.connection, operator="ada")
        with pytest.raises(RuntimeError, match="await its verbs, whose names begin with an a"):
            admin.stop("channel", "sms")

        assert (await admin.astatus()).stops == ()


async def test_connection_that_is_not_async_is_told_so(sqlite_address: Address) -> None:
    with (
        recording(sqlite_address) as connection,
        pytest.raises(ConfigError, match=r"^sqlite3.Connection is not async: say `Admin.on\(…\)`"),
    ):
        await Admin.aon(connection, operator="ada")


def test_connection_that_is_none_or_has_no_tables_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^builtins.object is not a connection that sendonce can work on"):
        Admin.on(object(), operator="ada")  # type: ignore[arg-type]
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(SchemaMismatch, match="sendonce migrate"):
        Admin.on(connection, operator="ada")


@pytest.mark.postgres
def test_transaction_that_has_failed_is_told_to_be_rolled_back(postgres_address: Address) -> None:
    with psycopg.connect(postgres_address.url) as connection:
        admin = Admin.on(connection, operator="ada")
        with pytest.raises(psycopg.Error):
            connection.execute("select nonsense")
        with pytest.raises(ConfigError, match=r"^a statement has failed in .* transaction; roll it back"):
            admin.status()
        connection.rollback()

        assert admin.status().stops == ()
