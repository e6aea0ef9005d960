"""A type checker refuses an async connection for publish and a sync one for apublish, whatever is installed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HEADER = """
import sqlite3
from typing import Any
from sendonce import Draft, Email, Outbox

outbox = Outbox()
"""
ALL = """
import aiosqlite
import asyncpg
import psycopg
import psycopg2.extensions
from asyncpg.pool import PoolConnectionProxy
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

Sync = (
    sqlite3.Connection | psycopg.Connection[Any] | psycopg2.extensions.connection | Connection | Session
    | scoped_session[Session]
)

def sync_callers(connection: Sync) -> None:
    outbox.publish(connection, "a", {}, key="a", to=[Email("a@b.example", text="x"), "https://a.example"])
    outbox.publish_many(connection, [Draft("a", {}, key=("a", 1), to=None)])

async def async_callers(
    one: psycopg.AsyncConnection[Any], two: asyncpg.Connection[Any], three: PoolConnectionProxy[Any],
    four: AsyncConnection, five: AsyncSession, six: async_scoped_session[AsyncSession], seven: aiosqlite.Connection,
) -> None:
    await outbox.apublish(one, "a", {}, key="a", to="null:a")
    await outbox.apublish(two, "a", {}, key="a", to="null:a")
    await outbox.apublish(three, "a", {}, key="a", to="null:a")
    await outbox.apublish(four, "a", {}, key="a", to="null:a")
    await outbox.apublish(five, "a", {}, key="a", to="null:a")
    await outbox.apublish(six, "a", {}, key="a", to="null:a")
    await outbox.apublish(seven, "a", {}, key="a", to="null:a")
    await outbox.apublish_many(one, [Draft("a", {}, key="a", to="null:a")])
    outbox.publish(one, "a", {}, key="a", to="null:a")  # wrong
    outbox.publish(two, "a", {}, key="a", to="null:a")  # wrong
    outbox.publish(three, "a", {}, key="a", to="null:a")  # wrong
    outbox.publish(four, "a", {}, key="a", to="null:a")  # wrong
    outbox.publish(five, "a", {}, key="a", to="null:a")  # wrong
    outbox.publish(six, "a", {}, key="a", to="null:a")  # wrong
    outbox.publish(seven, "a", {}, key="a", to="null:a")  # wrong
    outbox.publish_many(five, [])  # wrong

async def mistaken(
    one: sqlite3.Connection, two: psycopg.Connection[Any], three: psycopg2.extensions.connection, four: Connection,
    five: Session,
) -> None:
    await outbox.apublish(one, "a", {}, key="a", to="null:a")  # wrong
    await outbox.apublish(two, "a", {}, key="a", to="null:a")  # wrong
    await outbox.apublish(three, "a", {}, key="a", to="null:a")  # wrong
    await outbox.apublish(four, "a", {}, key="a", to="null:a")  # wrong
    await outbox.apublish(five, "a", {}, key="a", to="null:a")  # wrong
    await outbox.apublish_many(five, [])  # wrong
    outbox.publish("postgresql://localhost", "a", {}, key="a", to="null:a")  # wrong
    outbox.publish(one, "a", {}, to="null:a")  # wrong
    outbox.publish(one, "a", {}, key="a")  # wrong
    outbox.publish_many(one, [Draft("a", {}, key="a")])  # wrong
    outbox.publish(one, "a", {}, key=None, to="null:a")  # wrong
    outbox.publish(one, "a", {}, key="a", to="null:a", if_different="drop")  # wrong
"""
NONE = """
import psycopg  # type: ignore[import-not-found]

async def untyped(connection: psycopg.AsyncConnection) -> None:
    await outbox.apublish(connection, "a", {}, key="a", to="null:a")
    outbox.publish(connection, "a", {}, key="a", to="null:a")

async def typed(connection: sqlite3.Connection) -> None:
    outbox.publish(connection, "a", {}, key="a", to="null:a")
    await outbox.apublish(connection, "a", {}, key="a", to="null:a")  # wrong
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("snippet", "options"), [(ALL, []), (NONE, ["--no-site-packages"])], ids=["all", "none"])
def test_type_checker_finds_exactly_the_mistakes(
    tmp_path: Path, pytestconfig: pytest.Config, snippet: str, options: list[str]
) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(HEADER + snippet)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path / "cache")]
    checked = subprocess.run(
        [*command, *options, str(file)],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(pytestconfig.rootpath / "src")},
        capture_output=True,
        text=True,
        check=False,
    )

    lines = file.read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    found = {int(number) for number in re.findall(r"^snippet\.py:(\d+): error", checked.stdout, re.MULTILINE)}
    assert found == wrong, checked.stdout
