"""Bring a SQLite database to the newest schema, or print what would be run."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import Any

from sendonce.checkpoints import checkpoint
from sendonce.sql.queries import with_parameters
from sendonce.sql.steps import Query, run
from sendonce.store.migrations import Applying, Migration, Told, Work, available, backfill, silent
from sendonce.store.sqlite.connection import MEMORY, PACKAGE, QUERIES, begin, exists, open_file, parse_url, translated


async def migrate(url: str, told: Told = silent) -> list[str]:
    """Apply what is missing, all or nothing, and fill in what that needs, step by step; what was applied now.

    Safe to run twice, and from two processes at once: the second one finds nothing left to do, or shares the work. A
    database in memory is migrated when it is opened.
    """
    path = parse_url(url)
    return [] if path == MEMORY else await asyncio.to_thread(_migrate, path, told)


async def schema_version(url: str) -> int:
    """The number of the schema; 0 when there are no tables, or no file. Makes nothing."""
    path = parse_url(url)
    return 0 if path == MEMORY else await asyncio.to_thread(_schema_version, path)


def sql(from_version: int = 0) -> str:
    """The migrations above a version as one script for other tools, with the bookkeeping."""
    missing = available(PACKAGE)[from_version:]
    if not missing:
        return ""
    parts = ["pragma journal_mode = wal;", "begin immediate;"]
    for migration in missing:
        parts += [f"-- {migration.name}", migration.sql.strip()]
        parts += [f"{statement};" for statement in _bookkeeping(migration, missing)]
    return "\n\n".join([*parts, "commit;"]) + "\n"


def version_on(connection: sqlite3.Connection) -> int:
    """The number of the schema that this connection sees."""
    if not connection.execute(QUERIES["has_meta"]).fetchone():
        return 0
    row = connection.execute(QUERIES["schema_version"]).fetchone()
    return int(row[0]) if row else 0


def apply_missing(connection: sqlite3.Connection) -> list[str]:
    """Apply what is missing in the transaction that this connection is in; the names of what was applied."""
    missing = available(PACKAGE)[version_on(connection) :]
    for migration in missing:
        for statement in _statements(migration.sql):
            connection.execute(statement)
        for statement in _bookkeeping(migration, missing):
            connection.execute(statement)
    return [migration.name for migration in missing]


def _migrate(path: str, told: Told) -> list[str]:
    with translated(), closing(open_file(path, create=True)) as connection:
        # The version is read under the lock: whoever comes second sees what the first one has done.
        begin(connection)
        applied = apply_missing(connection)
        if applied:
            told(Applying(tuple(applied)))
        checkpoint("migrate.before_commit")
        connection.execute("commit")
        checkpoint("migrate.after_commit")
        run(backfill(available(PACKAGE), told, late=not applied), partial(_execute, connection))
        return applied


def _schema_version(path: str) -> int:
    if not exists(path):
        return 0
    with translated(), closing(open_file(path, read_only=True)) as connection:
        return version_on(connection)


def _bookkeeping(migration: Migration, missing: Sequence[Migration]) -> Iterator[str]:
    yield with_parameters(QUERIES["set_schema_version"], lambda _: f"'{migration.number}'")
    if migration.backfill:
        bound = migration.backfill["bound"]
        yield f"insert into sendonce_meta (name, value) select '{migration.state}', '0/' || ({bound})"
        if missing[0].number == 1 and migration is not missing[-1]:
            # No program that leaves something to fill in has ever used this database.
            yield with_parameters(QUERIES["close_backfill"], lambda _: f"'{migration.closed}'")


def _statements(script: str) -> Iterator[str]:
    """One statement at a time: sqlite3's own way to run a script would commit first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _execute(connection: sqlite3.Connection, asked: Work | timedelta) -> Any:
    """Carry out one transaction of a back-fill, or leave the database to others for so long."""
    if isinstance(asked, timedelta):
        return time.sleep(asked.total_seconds())

    def execute(query: Query) -> list[Any]:
        sql = asked.migration.backfill.get(query.name) or QUERIES[query.name]
        return connection.execute(sql, query.values).fetchall()

    if asked.only_reads:
        connection.execute("begin")
    else:
        begin(connection)
    answer = run(asked.steps(), execute)
    connection.execute("commit")
    return answer
