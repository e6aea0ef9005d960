"""Transactions on SQLAlchemy: tried again when others were in the way, and only then."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from sendonce import CommitUnknown, ConfigError, Outbox, StoreBusy
from sendonce.compose import amigrate
from sendonce.contrib import sqlalchemy as contrib
from sendonce.contrib.sqlalchemy import ain_transaction, areading, async_engine, is_passing
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase
from tests.store.postgres.pooler import Pooler

SERIALIZABLE = "SERIALIZABLE"
WRITERS = 8


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contrib, "FIRST_PAUSE", 0.001)


@pytest_asyncio.fixture
async def engine(database: Database) -> AsyncIterator[AsyncEngine]:
    assert isinstance(database, SqliteDatabase | PostgresDatabase)
    engine = async_engine(database.url)
    async with engine.begin() as connection:
        await connection.execute(text("create table accounts (id integer primary key, amount integer not null)"))
        await connection.execute(text("insert into accounts (id, amount) values (1, 0), (2, 0)"))
    yield engine
    await engine.dispose()


async def read(connection: AsyncConnection, number: int = 1) -> int:
    asked = text("select amount from accounts where id = :id")
    return int((await connection.execute(asked, {"id": number})).scalar_one())


async def write(connection: AsyncConnection, amount: int, number: int = 1) -> None:
    await connection.execute(
        text("update accounts set amount = :amount where id = :id"), {"amount": amount, "id": number}
    )


async def test_transaction_that_reads_before_it_writes_is_right_under_serializable_races(engine: AsyncEngine) -> None:
    tries = 0

    async def add_one(connection: AsyncConnection) -> None:
        nonlocal tries
        tries += 1
        await write(connection, await read(connection) + 1)

    await asyncio.gather(*(ain_transaction(engine, add_one, isolation_level=SERIALIZABLE) for _ in range(WRITERS)))

    async with engine.connect() as connection:
        assert await read(connection) == WRITERS
    if engine.dialect.name == "postgresql":
        assert tries > WRITERS, "they were not in each other's way: this proves nothing"


async def test_event_is_recorded_once_with_the_work_that_was_tried_again(
    engine: AsyncEngine, database: Database
) -> None:
    meeting = asyncio.Barrier(2)
    met: set[int] = set()

    async def record(number: int) -> None:
        async def work(connection: AsyncConnection) -> None:
            amount = await read(connection)
            if engine.dialect.name == "postgresql" and number not in met:
                met.add(number)
                await meeting.wait()  # both have read before either writes
            await write(connection, amount + 1)
            await Outbox().apublish(connection, "account.changed", {"amount": amount}, key=number, to="null:a")

        await ain_transaction(engine, work, isolation_level=SERIALIZABLE)

    await asyncio.gather(record(1), record(2))

    assert database.one("select amount from accounts where id = 1") == 2
    assert {row["key"] for row in database.rows("events")} == {"1", "2"}
    assert len(database.rows("deliveries")) == 2


async def test_deadlock_is_tried_again(engine: AsyncEngine) -> None:
    if engine.dialect.name != "postgresql":
        pytest.skip("one writer at a time has no deadlocks")
    meeting = asyncio.Barrier(2)
    tries = 0

    async def crossing(first: int, second: int) -> None:
        is_first_time = True

        async def work(connection: AsyncConnection) -> None:
            nonlocal tries, is_first_time
            tries += 1
            await connection.execute(text("set local deadlock_timeout = '20ms'"))
            await write(connection, first, first)
            if is_first_time:
                is_first_time = False
                await meeting.wait()
            await write(connection, first, second)

        await ain_transaction(engine, work)

    await asyncio.gather(crossing(1, 2), crossing(2, 1))

    assert tries == 3, "one of the two was given up by the database, and done again"


async def test_locked_file_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contrib, "BUSY_SECONDS", 0.001)
    file = tmp_path / "locked.db"
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("create table accounts (id integer primary key, amount integer not null)")
    other.execute("begin immediate")
    engine = async_engine(f"sqlite:///{file}")
    refused = 0

    async def work(connection: AsyncConnection) -> None:
        await connection.execute(text("insert into accounts (id, amount) values (1, 1)"))

    real = contrib.is_passing

    def count(error: DBAPIError | StoreBusy) -> bool:
        nonlocal refused
        refused += 1
        if refused == 3:
            other.execute("rollback")
        return real(error)

    monkeypatch.setattr(contrib, "is_passing", count)
    await ain_transaction(engine, work)
    await engine.dispose()

    assert refused == 3
    assert other.execute("select count(*) from accounts").fetchone() == (1,)
    other.close()


async def test_error_that_does_not_pass_is_raised_at_once_and_nothing_is_written(engine: AsyncEngine) -> None:
    tries = 0

    async def work(connection: AsyncConnection) -> None:
        nonlocal tries
        tries += 1
        await write(connection, 7)
        await connection.execute(text("insert into accounts (id, amount) values (1, 1)"))

    with pytest.raises(IntegrityError):
        await ain_transaction(engine, work, isolation_level=SERIALIZABLE)

    assert tries == 1
    async with engine.connect() as connection:
        assert await read(connection) == 0


async def test_error_of_the_works_own_is_raised_at_once_and_nothing_was_written(engine: AsyncEngine) -> None:
    tries = 0

    async def work(connection: AsyncConnection) -> None:
        nonlocal tries
        tries += 1
        await write(connection, 7)
        raise LookupError("the caller's own")

    with pytest.raises(LookupError):
        await ain_transaction(engine, work)

    assert tries == 1
    async with engine.connect() as connection:
        assert await read(connection) == 0


async def test_transaction_is_given_up_as_busy_after_its_tries(engine: AsyncEngine) -> None:
    tries = 0

    async def work(connection: AsyncConnection) -> None:
        nonlocal tries
        tries += 1
        failure = psycopg.errors.SerializationFailure("others were first")
        raise OperationalError("update", {}, failure)

    with pytest.raises(StoreBusy, match="3 times; try again"):
        await ain_transaction(engine, work, tries=3)

    assert tries == 3


async def test_result_of_the_work_is_given_back(engine: AsyncEngine) -> None:
    assert await ain_transaction(engine, read) == 0


async def test_databases_both_check_foreign_keys(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("create table entries (account integer references accounts (id))"))

    with pytest.raises(IntegrityError):
        async with engine.begin() as connection:
            await connection.execute(text("insert into entries (account) values (3)"))


def test_errors_that_pass_by_themselves_are_told_apart() -> None:
    assert is_passing(StoreBusy("later"))
    assert is_passing(OperationalError("", {}, psycopg.errors.DeadlockDetected()))
    assert not is_passing(OperationalError("", {}, psycopg.errors.AdminShutdown())), "it may have been committed"
    assert not is_passing(OperationalError("", {}, sqlite3.OperationalError("no such table")))


async def test_address_or_number_of_tries_that_is_wrong_is_refused(engine: AsyncEngine) -> None:
    with pytest.raises(ConfigError):
        async_engine("mysql://localhost/shop")
    with pytest.raises(ConfigError, match="at least 1"):
        await ain_transaction(engine, read, tries=0)
    for level in ("SNAPSHOT", "AUTOCOMMIT"):
        with pytest.raises(ConfigError, match=f"SERIALIZABLE, not '{level}'"):
            await ain_transaction(engine, read, isolation_level=level)
        with pytest.raises(ConfigError, match=f"SERIALIZABLE, not '{level}'"):
            async with areading(engine, isolation_level=level):
                pass


async def test_connection_that_is_lost_while_committing_is_not_nothing_written(
    engine: AsyncEngine, database: Database
) -> None:
    if engine.dialect.name != "postgresql":
        pytest.skip("a file has no connection to lose")
    tries = 0

    async def cut_off(connection: AsyncConnection) -> int:
        pid = (await connection.execute(text("select pg_backend_pid()"))).scalar_one()
        database.execute("select pg_terminate_backend(?, 5000)", pid)
        return int(pid)

    async def cut_off_at_the_end(connection: AsyncConnection) -> None:
        nonlocal tries
        tries += 1
        await write(connection, 7)
        await cut_off(connection)

    async def cut_off_before(connection: AsyncConnection) -> None:
        await cut_off(connection)
        await write(connection, 7)

    with pytest.raises(CommitUnknown, match="it may have been written; look before you try again"):
        await ain_transaction(engine, cut_off_at_the_end)
    with pytest.raises(StoreBusy):
        await ain_transaction(engine, cut_off_before)

    assert tries == 1
    assert await ain_transaction(engine, read) == 0, "the pool has a connection that works"


async def test_commit_that_the_database_refuses_was_not_written(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(
            text("create table late (account integer references accounts (id) deferrable initially deferred)")
        )

    async def work(connection: AsyncConnection) -> None:
        await write(connection, 7)
        await connection.execute(text("insert into late (account) values (3)"))

    with pytest.raises(IntegrityError):
        await ain_transaction(engine, work)

    assert await ain_transaction(engine, read) == 0


async def test_mistake_is_raised_as_it_is_and_shows_no_values(engine: AsyncEngine) -> None:
    async def mistaken(connection: AsyncConnection) -> None:
        await connection.execute(text("select :value from nowhere"), {"value": "hunter2"})

    with pytest.raises(DBAPIError, match="nowhere") as written:
        await ain_transaction(engine, mistaken)
    with pytest.raises(DBAPIError, match="nowhere") as read:
        async with areading(engine) as connection:
            await mistaken(connection)

    assert "hunter2" not in f"{written.value}{read.value}"


async def test_errors_that_pass_are_busy_for_reads_and_writes(database: Database, tmp_path: Path) -> None:
    assert isinstance(database, SqliteDatabase | PostgresDatabase)
    full = async_engine(database.url, pool_size=1, max_overflow=0, pool_timeout=0.01)
    away = "postgresql://x@127.0.0.1:1/x" if isinstance(database, PostgresDatabase) else f"sqlite:///{tmp_path}/no/a.db"
    gone = async_engine(away)
    async with full.connect():
        for engine in (full, gone):
            with pytest.raises(StoreBusy):
                await ain_transaction(engine, read)
            with pytest.raises(StoreBusy):
                async with areading(engine) as connection:
                    await read(connection)
    await full.dispose()
    await gone.dispose()


async def test_reads_see_one_moment_and_wait_for_no_writer(engine: AsyncEngine, database: Database) -> None:
    with database.connection() as writer:
        writer.execute("update accounts set amount = 5 where id = 1")
        async with asyncio.timeout(50), areading(engine, isolation_level="REPEATABLE READ") as connection:
            first = await read(connection)
            if isinstance(database, PostgresDatabase):
                writer.commit()
            second = await read(connection)

    assert (first, second) == (0, 0)
    async with areading(engine) as connection:
        assert await read(connection) == 5


async def test_engine_opens_the_file_that_sendonce_opens(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/50%41 off+.db"
    await amigrate(url)
    engine = async_engine(url)

    async with areading(engine) as connection:
        assert (await connection.execute(text("select count(*) from sendonce_events"))).scalar_one() == 0
    await engine.dispose()


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_engine_works_behind_a_pooler(database: PostgresDatabase) -> None:
    """What is done again and again is prepared by the driver, and a pooler gives it to another session."""
    async with Pooler(database.url).run(size=2) as pooler:
        engine = async_engine(pooler.url)
        for number in range(12):
            await ain_transaction(engine, partial(recorded, key=str(number)))
        await engine.dispose()

    assert len(database.rows("events")) == 12


async def recorded(connection: AsyncConnection, key: str) -> None:
    await Outbox().apublish(connection, "memo.created", {"text": "東京"}, key=key, to="null:a")
    await connection.execute(text("select count(*) from sendonce_events"))


async def test_arguments_for_connecting_are_kept(tmp_path: Path) -> None:
    engine = async_engine(f"sqlite:///{tmp_path}/own.db", connect_args={"cached_statements": 7})
    async with engine.connect() as connection:
        assert (await connection.execute(text("select 1"))).scalar_one() == 1
    await engine.dispose()
