"""Connections that break, locks that collide, and errors that say nothing they must not say."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from sendonce.compose import open_connection, open_store
from sendonce.domain.outcomes import Delivered
from sendonce.errors import ConfigError, NotAllowed, SendonceError, StoreBusy, StoreError
from sendonce.store.filters import Filter
from sendonce.store.postgres import connection as postgres_connection
from sendonce.store.postgres import migrate as postgres_migrate
from sendonce.store.postgres.store import PostgresStore
from tests.given import HOLD, WORKER, given_due_deliveries, given_lease, settle_with
from tests.processes import SECONDS
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase

SECRET = "hunter2-4111"
CUT = (
    "select pg_terminate_backend(pid, 20000) from pg_stat_activity where application_name = 'sendonce' and datname = ?"
)
LANES: dict[str, Callable[[PostgresStore], Awaitable[object]]] = {
    "claims": lambda store: store.start(WORKER, 1, HOLD),
    "results": lambda store: store.cancel([10**6], operator="ada", reason="test"),
    "settling": lambda store: store.settle([]),
    "leases": lambda store: store.renew([1], HOLD),
    "people": lambda store: store.deliveries(Filter()),
    "operating": lambda store: store.stop("tenant", "acme", operator="ada", reason=None),
}


def named(database: PostgresDatabase) -> str:
    return database.url.rpartition("/")[2].partition("?")[0]


def with_setting(database: PostgresDatabase, setting: str) -> str:
    return f"{database.url}{'&' if '?' in database.url else '?'}options=-c%20{setting}"


@contextmanager
def somebody(database: PostgresDatabase) -> Iterator[psycopg.Connection]:
    """Another session, in a transaction that is rolled back in the end."""
    with psycopg.connect(database.url) as connection:
        yield connection
        connection.rollback()


async def is_waiting(database: PostgresDatabase) -> None:
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    give_up_at = time.monotonic() + SECONDS
    while not await asyncio.to_thread(database.one, waiting):
        assert time.monotonic() < give_up_at, "nobody waits"


@pytest.mark.parametrize("lane", LANES)
async def test_connection_that_was_cut_while_it_was_idle_is_opened_again(
    database: PostgresDatabase, store: PostgresStore, lane: str
) -> None:
    call = LANES[lane]
    await call(store)

    assert database.execute(CUT, named(database)) == [(True,)]

    await call(store)


async def test_connection_cut_in_the_middle_of_a_call_is_opened_again(
    database: PostgresDatabase, store: PostgresStore
) -> None:
    [_, second] = given_due_deliveries(database, 2)
    lease = await given_lease(store, limit=1)
    with somebody(database) as other:
        other.execute("lock table sendonce_attempts in exclusive mode")
        settling = asyncio.create_task(settle_with(store, lease, Delivered()))
        await is_waiting(database)
        database.execute(f"{CUT} and wait_event_type = 'Lock'", named(database))
        with pytest.raises(StoreBusy, match="AdminShutdown, 57P01"):
            await settling

    assert await settle_with(store, lease, Delivered()) == ["applied"]
    assert [claim.delivery_id for claim in (await given_lease(store)).claims] == [second]


async def test_cancelled_call_leaves_a_lane_that_works(database: PostgresDatabase, store: PostgresStore) -> None:
    given_due_deliveries(database, 1)
    with somebody(database) as other:
        other.execute("lock table sendonce_leases in access exclusive mode")
        claiming = asyncio.create_task(store.start(WORKER, 1, HOLD))
        await is_waiting(database)
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming

    assert (await store.status()).due == 1
    assert len((await given_lease(store)).claims) == 1


async def test_call_that_is_never_answered_is_given_up(
    database: PostgresDatabase, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_due_deliveries(database, 1)
    with somebody(database) as other, monkeypatch.context() as patch:
        patch.setattr(postgres_connection, "CALL_SECONDS", 0.2)
        other.execute("lock table sendonce_leases in access exclusive mode")
        with pytest.raises(StoreBusy, match=r"PostgreSQL cannot answer now \(TimeoutError\)"):
            await store.start(WORKER, 1, HOLD)

    assert len((await given_lease(store)).claims) == 1


async def test_deadlock_is_busy(database: PostgresDatabase, store: PostgresStore) -> None:
    given_due_deliveries(database, 2)
    first, second = sorted([(await given_lease(store, limit=1)).id for _ in range(2)])  # as they are locked
    touch = "update sendonce_leases set expires_at = expires_at where id = %s"
    with somebody(database) as other:
        other.execute("set deadlock_timeout = '60s'")  # so that it is ours that finds out
        other.execute(touch, (second,))
        renewing = asyncio.create_task(store.renew([first, second], HOLD))
        await is_waiting(database)
        crossing = asyncio.create_task(asyncio.to_thread(other.execute, touch, (first,)))
        with pytest.raises(StoreBusy, match="DeadlockDetected, 40P01"):
            await renewing
        await crossing

    assert await store.renew([first, second], HOLD) == {first, second}


@pytest.mark.parametrize("level", ["repeatable%5C%20read", "serializable"])
async def test_stricter_default_makes_no_conflict(database: PostgresDatabase, level: str) -> None:
    strict = await PostgresStore.connect(with_setting(database, f"default_transaction_isolation%3D{level}"))
    worker_id = await strict.register("w", "1", 1)
    with psycopg.connect(database.url) as other:
        other.execute("update sendonce_workers set seen_at = now()")
        beating = asyncio.create_task(strict.beat(worker_id, progressed=True))
        await is_waiting(database)
        other.commit()

    await beating
    await strict.close()


@pytest.mark.parametrize(
    ("setting", "said"),
    [("lock_timeout%3D100ms", "LockNotAvailable, 55P03"), ("statement_timeout%3D300ms", "QueryCanceled, 57014")],
)
async def test_statement_timeout_is_busy(database: PostgresDatabase, setting: str, said: str) -> None:
    store = await PostgresStore.connect(with_setting(database, setting))
    given_due_deliveries(database, 1)
    with somebody(database) as other:
        other.execute("lock table sendonce_deliveries in access exclusive mode")
        with pytest.raises(StoreBusy, match=said):
            await store.start(WORKER, 1, HOLD)

    assert len((await given_lease(store)).claims) == 1
    await store.close()


def subscription(**changes: Any) -> Callable[[PostgresStore], Awaitable[object]]:
    arguments = {"tenant": "", "types": ["a.b"], "destination": "null:a", "policy": None, "description": None}
    return lambda store: store.add_subscription(**{**arguments, "operator": "ada", **changes})


WRONG: dict[str, tuple[type[SendonceError], Callable[[PostgresStore], Awaitable[object]]]] = {
    "too long": (NotAllowed, subscription(destination=SECRET * 500)),
    "a type that is too long": (NotAllowed, subscription(types=[SECRET * 50])),
    "no scope": (NotAllowed, lambda store: store.stop(SECRET, SECRET, operator="ada", reason=SECRET)),
    "no state": (NotAllowed, lambda store: store.set_subscription_state(1, SECRET, operator=SECRET, reason=SECRET)),
    "no number": (StoreError, lambda store: store.renew([SECRET], HOLD)),  # type: ignore[list-item]
    "a number too large": (StoreError, lambda store: store.discard([4111 * 10**30], operator=SECRET, reason=SECRET)),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_errors_never_carry_values(store: PostgresStore, wrong: str) -> None:
    await subscription()(store)
    kind, call = WRONG[wrong]

    with pytest.raises(kind) as caught:
        await call(store)

    assert "hunter2" not in repr(caught.value)
    assert "4111" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert (await store.status()).stops == ()


ADDRESSES = {
    "nobody listens": f"postgresql://app:{SECRET}@127.0.0.1:1/db",
    "no such host": f"postgresql://app:{SECRET}@no.such.host.invalid/db",
    "a password as an option": f"postgresql://app@127.0.0.1:1/db?password={SECRET}",
    "an option that is none": f"postgresql://app:{SECRET}@127.0.0.1:1/db?nonsense=1",
    "a space": f"postgresql://app:{SECRET} {SECRET}@127.0.0.1:1/db",
    "an at sign": f"postgresql://app:x@{SECRET}@127.0.0.1:1/db",
    "a slash": f"postgresql://app:{SECRET}/{SECRET}@127.0.0.1:1/db",
    "a percent sign": f"postgresql://app:{SECRET}%zz@127.0.0.1:1/db",
}


@pytest.mark.parametrize("address", ADDRESSES)
async def test_password_is_never_shown(address: str) -> None:
    said: list[BaseException] = []
    for call in (open_store(ADDRESSES[address]), asyncio.to_thread(open_and_close, ADDRESSES[address])):
        with pytest.raises((StoreBusy, ConfigError)) as caught:
            await call
        said.append(caught.value)

    assert not any("hunter2" in repr(each) for each in said)


def open_and_close(url: str) -> None:
    with open_connection(url):
        raise AssertionError("it must not open")


async def test_database_that_is_missing_is_named_without_the_password(postgres_server: Server) -> None:
    url = postgres_server.dsn("no_such_database").replace("postgres@", f"postgres:{SECRET}@", 1)

    for call in (postgres_migrate.migrate, postgres_migrate.schema_version, PostgresStore.connect):
        with pytest.raises(StoreBusy, match='database "no_such_database" does not exist') as caught:
            await call(url)
        assert SECRET not in repr(caught.value)


async def test_refused_connection_is_said_in_words() -> None:
    with pytest.raises(StoreBusy, match=r'"127\.0\.0\.1", port 1 failed: Connection refused\)$'):
        await open_store(ADDRESSES["nobody listens"])
