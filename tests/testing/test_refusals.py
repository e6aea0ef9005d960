"""What cannot be is said in one sentence, and what is public is listed."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import sessionmaker

from sendonce import ConfigError, testing
from tests.outbox.callers import POSTGRES, SQLITE
from tests.outbox.databases import Address, sqlite_connection
from tests.testing.conftest import without_tables_in

OTHERS = {
    **{kind: "asyncpg" for kind in ("asyncpg", "sqlalchemy-connection-asyncpg", "sqlalchemy-session-asyncpg")},
    **{kind: "psycopg2" for kind in ("psycopg2", "sqlalchemy-connection-psycopg2", "sqlalchemy-session-psycopg2")},
}


@pytest.mark.parametrize(("kind", "package"), OTHERS.items())
async def test_other_drivers_of_postgres_are_told_what_to_use(without_tables: Address, kind: str, package: str) -> None:
    async with POSTGRES[kind](without_tables) as caller:
        with pytest.raises(ConfigError, match=f"cannot work on a connection of {package}; use sqlite3 or psycopg 3"):
            await testing.aoutbox(caller.connection)


@pytest.mark.parametrize("kind", ["aiosqlite", "sqlalchemy-connection-aiosqlite", "sqlalchemy-session-aiosqlite"])
async def test_other_drivers_of_sqlite_are_told_what_to_use(tmp_path: Path, kind: str) -> None:
    async with SQLITE[kind](without_tables_in(tmp_path)) as caller:
        with pytest.raises(ConfigError, match="cannot work on a connection of aiosqlite; use sqlite3 or psycopg 3"):
            await testing.aoutbox(caller.connection)


@pytest.mark.parametrize("other", [None, "sqlite://", object()])
def test_what_is_no_connection_is_told_what_to_use(other: Any) -> None:
    with pytest.raises(ConfigError, match="; use sqlite3 or psycopg 3, or SQLAlchemy over one of them"):
        testing.outbox(other)


@pytest.mark.parametrize(
    "engine",
    [sqlalchemy.create_engine("sqlite://"), create_async_engine("sqlite+aiosqlite://"), sessionmaker()],
    ids=lambda each: type(each).__name__,
)
def test_what_only_makes_connections_is_told_to_be_none(engine: Any) -> None:
    with pytest.raises(ConfigError, match=f"^a SQLAlchemy {type(engine).__name__} is not a connection; give an open"):
        testing.outbox(engine)


def test_a_closed_connection_is_told_to_be_closed(address: Address) -> None:
    opened: Any = sqlite_connection(address) if address.dialect == "sqlite" else psycopg.connect(address.url)
    with closing(opened):
        box = testing.outbox(opened)
        opened.rollback()

    for use in (box.drain, lambda: testing.outbox(opened)):
        with pytest.raises(ConfigError, match=r"^this connection is closed; give an open one"):
            use()


def test_a_transaction_that_has_failed_is_told_to_be_rolled_back(without_tables: Address) -> None:
    with psycopg.connect(without_tables.url) as connection:
        box = testing.outbox(connection)
        with pytest.raises(psycopg.Error):
            connection.execute("select nonsense")

        for use in (box.drain, lambda: testing.outbox(connection)):
            with pytest.raises(ConfigError, match=r"^a statement has failed in .* transaction; roll it back"):
                use()
        connection.rollback()
        assert testing.outbox(connection).drain() == []
        connection.rollback()


def test_a_connection_that_sqlalchemy_has_closed_is_told_to_be() -> None:
    with sqlalchemy.create_engine("sqlite://").connect() as connection:
        pass

    with pytest.raises(
        ConfigError, match=r"^SQLAlchemy cannot use this connection as it is \(ResourceClosedError\); roll"
    ):
        testing.outbox(connection)


async def test_within_an_event_loop_the_async_ones_are_named(connection: Any) -> None:
    with pytest.raises(ConfigError, match=r"say `await testing.aoutbox\(…\)`"):
        testing.outbox(connection)
    box = await testing.aoutbox(connection)
    with pytest.raises(ConfigError, match=r"`await box.adrain\(\)`"):
        box.drain()


def test_a_policy_that_is_none_is_refused(connection: Any) -> None:
    with pytest.raises(ConfigError, match="unknown policy setting 'patience'"):
        testing.outbox(connection, policy={"patience": 1})
    with pytest.raises(ConfigError, match="the lease is only 30 s"):
        testing.outbox(connection, policy={"timeout": "30s"})


def test_everything_public_is_listed_and_nothing_else() -> None:
    visible = {
        name for name, value in vars(testing).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }

    assert visible == set(testing.__all__)


def test_it_is_imported_late_and_needs_no_other_package() -> None:
    script = (
        "import sys, sqlite3; import sendonce; late = 'sendonce.testing' not in sys.modules\n"
        "from sendonce import testing; connection = sqlite3.connect(':memory:'); box = testing.outbox(connection)\n"
        "sendonce.Outbox().publish(connection, 'a', {}, key='a', to='https://a.example/'); assert box.drain()\n"
        "names = {name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names\n"
        "print(late, *sorted(name for name in names if name in ('aiohttp', 'psycopg', 'pytest', 'sqlalchemy')))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert answer.stdout.split() == ["True"]
