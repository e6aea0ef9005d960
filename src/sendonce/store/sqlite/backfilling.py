"""Fills in what a migration has left empty: in small transactions, between which others go on."""

import sqlite3
import time
from collections.abc import Sequence

from sendonce.checkpoints import checkpoint
from sendonce.store.migrations import BACKFILL_ROWS, Backfill, Migration, Told
from sendonce.store.sqlite.files import begin
from sendonce.store.sqlite.lanes import QUERIES


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
