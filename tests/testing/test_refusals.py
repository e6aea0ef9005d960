"""What cannot be is said in one sentence, and what is public is listed."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncpg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import sessionmaker

from sendonce import ConfigError, testing
from tests.outbox.callers import POSTGRES, SQLITE
from tests.outbox.databases import Address
from tests.testing.conftest import OPENERS, without_tables_in


@pytest.mark.parametrize("other", [None, "sqlite://", object()])
def test_connection_of_another_type_is_told_what_to_use(other: Any) -> None:
    said = f"^builtins.{type(other).__name__} is not a connection that sendonce can work on; give an open one of"
    with pytest.raises(ConfigError, match=f"{said} sqlite3, psycopg, psycopg2, asyncpg, aiosqlite, or a SQLAlchemy"):
        testing.outbox(other)


@pytest.mark.parametrize(
    "engine",
    [sqlalchemy.create_engine("sqlite://"), create_async_engine("sqlite+aiosqlite://"), sessionmaker()],
    ids=lambda each: type(each).__name__,
)
def test_engine_is_told_to_be_no_connection(engine: Any) -> None:
    with pytest.raises(ConfigError, match=f"^a SQLAlchemy {type(engine).__name__} is not a connection; give an open"):
        testing.outbox(engine)


@pytest.mark.parametrize("kind", ["sqlite3", "aiosqlite", "psycopg", "psycopg-async", "psycopg2", "asyncpg"])
async def test_connection_that_is_closed_is_told_so(without_tables: Address, tmp_path: Path, kind: str) -> None:
    address = without_tables_in(tmp_path) if kind in SQLITE else without_tables
    async with OPENERS[kind](address) as caller:  # what asyncpg's pool has lent is back there afterwards
        box = await testing.aoutbox(caller.connection)
        await caller.end("rollback")

    for use in (box.adrain, lambda: testing.aoutbox(caller.connection)):
        with pytest.raises(ConfigError, match=r"^this connection is closed; give an open one"):
            await use()


async def test_connection_of_asyncpg_that_is_closed_is_told_so(without_tables: Address) -> None:
    connection = await asyncpg.connect(without_tables.url)
    await connection.close()

    with pytest.raises(ConfigError, match=r"^this connection is closed; give an open one"):
        await testing.aoutbox(connection)


@pytest.mark.parametrize("kind", POSTGRES)
async def test_transaction_that_has_failed_is_told_to_be_rolled_back(without_tables: Address, kind: str) -> None:
    async with POSTGRES[kind](without_tables) as caller:
        box = await testing.aoutbox(caller.connection)
        with pytest.raises(Exception, match="nonsense"):
            await caller.do("select nonsense")

        for use in (box.adrain, lambda: testing.aoutbox(caller.connection)):
            with pytest.raises(ConfigError, match=r"^a statement has failed in .* transaction; roll it back"):
                await use()
        await caller.end("rollback")
        assert await (await testing.aoutbox(caller.connection)).adrain() == []
        await caller.end("rollback")


def test_connection_that_sqlalchemy_has_closed_is_told_to_be() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection:
        pass

    with pytest.raises(
        ConfigError, match=r"^SQLAlchemy cannot use this connection as it is \(ResourceClosedError\); roll"
    ):
        testing.outbox(connection)
    engine.dispose()


async def test_error_within_an_event_loop_names_the_async_functions(connection: Any) -> None:
    with pytest.raises(ConfigError, match=r"say `await testing.aoutbox\(…\)`"):
        testing.outbox(connection)
    box = await testing.aoutbox(connection)
    with pytest.raises(ConfigError, match=r"`await box.adrain\(\)`"):
        box.drain()


@pytest.mark.parametrize("kind", ["aiosqlite", "sqlalchemy-session-aiosqlite"])
async def test_async_connection_is_told_to_be_awaited(tmp_path: Path, kind: str) -> None:
    async with SQLITE[kind](without_tables_in(tmp_path)) as caller:
        with pytest.raises(ConfigError, match=r"^this connection is async: say `await testing.aoutbox\(…\)`"):
            testing.outbox(caller.connection)


def test_driver_that_needs_psycopg_3_as_well_says_so(without_tables: Address) -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "import psycopg2; from sendonce import ConfigError, testing\n"
        "try: testing.outbox(psycopg2.connect(sys.argv[1]))\n"
        "except ConfigError as error: print(error)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script, without_tables.url], capture_output=True, text=True, check=True
    )

    assert answer.stdout == "sendonce needs psycopg 3 on this connection: pip install 'sendonce[postgres]'\n"


def test_policy_that_is_none_is_refused(connection: Any) -> None:
    with pytest.raises(ConfigError, match="unknown policy setting 'patience'"):
        testing.outbox(connection, policy={"patience": 1})
    with pytest.raises(ConfigError, match="the lease is only 30 s"):
        testing.outbox(connection, policy={"timeout": "30s"})


def test_names_that_are_public_are_listed_and_no_others() -> None:
    visible = {
        name for name, value in vars(testing).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }

    assert visible == set(testing.__all__)


def test_testing_is_imported_late_and_needs_no_other_package() -> None:
    script = (
        "import sys, sqlite3; import sendonce; late = 'sendonce.testing' not in sys.modules\n"
        "from sendonce import testing; connection = sqlite3.connect(':memory:'); box = testing.outbox(connection)\n"
        "sendonce.Outbox().publish(connection, 'a', {}, key='a', to='https://a.example/'); assert box.drain()\n"
        "names = {name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names\n"
        "print(late, *sorted(name for name in names if name in ('aiohttp', 'psycopg', 'pytest', 'sqlalchemy')))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert answer.stdout.split() == ["True"]
