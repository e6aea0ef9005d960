"""Fills in what a migration has left empty: in small transactions, between which others go on."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial

from sendonce.checkpoints import checkpoint
from sendonce.sql.queries import with_parameters
from sendonce.sql.steps import Row
from sendonce.store.migrations import BACKFILL_ROWS, Backfill, Migration, Told
from sendonce.store.postgres.lanes import Connection, fetch
from sendonce.store.postgres.patience import patiently


async def backfill(connection: Connection, migrations: Sequence[Migration], told: Told, *, late: bool) -> None:
    """Fill in what every migration needs, from where the last run came to. Two at once share the work.

    `late`: also what programs of the version before have written since the migration.
    """
    filling = [migration for migration in migrations if migration.backfill]
    for migration in filling:
        # The newest of these: what older programs have left empty before that was filled in when they could still run.
        if late and migration is filling[-1] and await _is_late(connection, migration):
            await patiently(connection, partial(_lift, connection, migration), told)
        await _fill(connection, migration, told)


async def _fill(connection: Connection, migration: Migration, told: Told) -> None:
    while True:
        begun = time.monotonic()
        state = await patiently(connection, partial(_step, connection, migration), told)
        checkpoint("backfill.after_commit")
        if state is None:
            return
        told(state)
        await asyncio.sleep(time.monotonic() - begun)


async def _step(connection: Connection, migration: Migration) -> Backfill | None:
    """One bounded step and how far it has come, in one transaction; None when there was nothing left to do."""
    state = await _state(connection, migration)
    if state.is_finished:
        return None
    values = {"after": state.done, "bound": state.bound, "rows": BACKFILL_ROWS}
    [(upto,)] = await _ask(connection, migration.backfill["upto"], values)
    if upto is not None:
        await _ask(connection, migration.backfill["fill"], {"after": state.done, "upto": upto})
    done = Backfill(migration.name, state.bound if upto is None else upto, state.bound)
    await _write(connection, migration, done)
    checkpoint("backfill.before_commit")
    return done


async def _is_late(connection: Connection, migration: Migration) -> bool:
    async with connection.transaction():
        state = await _state(connection, migration)
    [(late,)] = await _ask(connection, migration.backfill["late"], {"bound": state.bound})
    return bool(late)


async def _lift(connection: Connection, migration: Migration) -> None:
    """Take in what older programs have written since the migration. Nothing below the new bound is open any more."""
    state = await _state(connection, migration)
    await _ask(connection, migration.backfill["hold"], {})
    [(bound,)] = await _ask(connection, migration.backfill["bound"], {})
    await _write(connection, migration, Backfill(migration.name, state.done, max(state.bound, int(bound))))


async def _state(connection: Connection, migration: Migration) -> Backfill:
    """How far it has come. Whoever comes at the same time waits here for the end of this transaction."""
    rows = await fetch(connection, "backfill", {"name": migration.state})
    return Backfill.read(migration.state, rows[0][0]) if rows else Backfill(migration.name, 0, 0)


async def _write(connection: Connection, migration: Migration, state: Backfill) -> None:
    await fetch(connection, "set_backfill", {"name": migration.state, "value": state.value})


async def _ask(connection: Connection, sql: str, values: Mapping[str, object]) -> list[Row]:
    cursor = await connection.execute(with_parameters(sql, lambda name: f"%({name})s").encode(), values)
    return await cursor.fetchall() if cursor.description is not None else []
