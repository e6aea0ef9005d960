"""Bring a SQLite database to the newest schema, or print what would be run."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing

from sendonce.checkpoints import checkpoint
from sendonce.sql.queries import with_parameters
from sendonce.store.migrations import BACKFILL_ROWS, Applying, Backfill, Migration, Told, available, silent
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
        parts += [f"{statement};" for statement in _bookkeeping(migration)]
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
        for statement in _bookkeeping(migration):
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
        backfill(connection, available(PACKAGE), told, late=not applied)
        return applied


def _schema_version(path: str) -> int:
    if not exists(path):
        return 0
    with translated(), closing(open_file(path, read_only=True)) as connection:
        return version_on(connection)


def _bookkeeping(migration: Migration) -> list[str]:
    version = with_parameters(QUERIES["set_schema_version"], lambda _: f"'{migration.number}'")
    if not migration.backfill:
        return [version]
    bound = migration.backfill["bound"]
    return [version, f"insert into sendonce_meta (name, value) select '{migration.state}', '0/' || ({bound})"]


def _statements(script: str) -> Iterator[str]:
    """One statement at a time: sqlite3's own way to run a script would commit first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def backfill(connection: sqlite3.Connection, migrations: Sequence[Migration], told: Told, *, late: bool) -> None:
    """Fill in what every migration needs, from where the last run came to. Two at once share the work.

    `late`: also what programs of the version before have written since the migration.
    """
    filling = [migration for migration in migrations if migration.backfill]
    for migration in filling:
        # The newest of these: what older programs have left empty before that was filled in when they could still run.
        if late and migration is filling[-1]:
            _lift(connection, migration)
        _fill(connection, migration, told)


def _fill(connection: sqlite3.Connection, migration: Migration, told: Told) -> None:
    while True:
        begun = time.monotonic()
        state = _step(connection, migration)
        checkpoint("backfill.after_commit")
        if state is None:
            return
        told(state)
        time.sleep(time.monotonic() - begun)


def _step(connection: sqlite3.Connection, migration: Migration) -> Backfill | None:
    """One bounded step and how far it has come, in one transaction; None when there was nothing left to do."""
    begin(connection)
    state = _state(connection, migration)
    if state.is_finished:
        connection.execute("rollback")
        return None
    values = {"after": state.done, "bound": state.bound, "rows": BACKFILL_ROWS}
    [(upto,)] = connection.execute(migration.backfill["upto"], values).fetchall()
    if upto is not None:
        connection.execute(migration.backfill["fill"], {"after": state.done, "upto": upto})
    done = Backfill(migration.name, state.bound if upto is None else upto, state.bound)
    connection.execute(QUERIES["set_backfill"], {"name": migration.state, "value": done.value})
    checkpoint("backfill.before_commit")
    connection.execute("commit")
    return done


def _lift(connection: sqlite3.Connection, migration: Migration) -> None:
    """Take in what older programs have written since the migration. There is one writer, so nothing else is open."""
    state = _state(connection, migration)
    [(late,)] = connection.execute(migration.backfill["late"], {"bound": state.bound}).fetchall()
    if not late:
        return
    begin(connection)
    state = _state(connection, migration)
    [(bound,)] = connection.execute(migration.backfill["bound"]).fetchall()
    lifted = Backfill(migration.name, state.done, max(state.bound, bound))
    connection.execute(QUERIES["set_backfill"], {"name": migration.state, "value": lifted.value})
    connection.execute("commit")


def _state(connection: sqlite3.Connection, migration: Migration) -> Backfill:
    row = connection.execute(QUERIES["backfill"], {"name": migration.state}).fetchone()
    return Backfill(migration.name, 0, 0) if row is None else Backfill.read(migration.state, row[0])
