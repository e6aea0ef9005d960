"""Bring a PostgreSQL database to the newest schema under running programs, safe to run twice and from two hosts.

The tables are changed in one transaction that never waits long for a lock: whoever waits for one makes all others wait
behind it, so it gives up soon and tries again. What has to be filled in comes afterwards, in small transactions.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

from psycopg import errors

from sendonce.checkpoints import checkpoint
from sendonce.errors import StoreBusy
from sendonce.sql.queries import with_parameters
from sendonce.sql.steps import Row
from sendonce.store.migrations import BACKFILL_ROWS, Applying, Backfill, Migration, Told, Waiting, available, silent
from sendonce.store.postgres.connection import ENCODING, Connection, connect, fetch, opened, translated, wrong_encoding

PACKAGE = "sendonce.store.postgres"
# Any number will do, as long as every version of the program takes the same one.
_LOCK = 0x53454E444F4E4345
_SET_VERSION = (
    "insert into sendonce_meta (name, value) values ('schema_version', '{number}')\n"
    "on conflict (name) do update set value = excluded.value;"
)
# The tables are held by the migration itself, so what is there now is all that older programs have left so far.
_BEGIN_BACKFILL = "insert into sendonce_meta (name, value) select '{state}', '0/' || ({bound});"


async def migrate(url: str, told: Told = silent) -> list[str]:
    """Apply what is missing and fill in what that needs; the names of what was applied."""
    async with translated():
        connection, session = await opened(url)
        try:
            if session.encoding != ENCODING:
                raise wrong_encoding(session.encoding)
            applied = await patiently(connection, lambda: _apply(connection, told), told)
            checkpoint("migrate.after_commit")
            await backfill(connection, available(PACKAGE), told, late=not applied)
            return applied
        finally:
            await connection.close()


async def apply_missing(connection: Connection) -> list[str]:
    """Apply what is missing in the transaction that this connection is in; the names of what was applied.

    The transaction's search_path is another one afterwards.
    """
    await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
    found = await version_on(connection)
    missing = [each for each in available(PACKAGE) if each.number > found]
    for migration in missing:
        await connection.execute(_script(migration).encode())
    return [each.name for each in missing]


async def schema_version(url: str) -> int:
    """The schema's number; 0 when there is none."""
    async with translated():
        connection = await connect(url)
        try:
            return await version_on(connection)
        finally:
            await connection.close()


async def version_on(connection: Connection) -> int:
    """The schema's number as this connection sees it; 0 when there is none."""
    cursor = await connection.execute("select to_regclass('sendonce_meta') is not null")
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return 0
    cursor = await connection.execute("select value::int from sendonce_meta where name = 'schema_version'")
    row = await cursor.fetchone()
    return 0 if row is None else int(row[0])


def sql(from_version: int = 0) -> str:
    """The migrations above a version as one script for other tools. `sendonce migrate` fills in the rest."""
    scripts = [_script(each) for each in available(PACKAGE) if each.number > from_version]
    return "\n".join(["begin;", f"set local lock_timeout = '{LOCK_TIMEOUT}';", *scripts, "commit;", ""])


async def _apply(connection: Connection, told: Told) -> list[str]:
    applied = await apply_missing(connection)
    if applied:
        told(Applying(tuple(applied)))
    checkpoint("migrate.before_commit")
    return applied


def _script(migration: Migration) -> str:
    parts = [migration.sql, _SET_VERSION.format(number=migration.number)]
    if migration.backfill:
        parts.append(_BEGIN_BACKFILL.format(state=migration.state, bound=migration.backfill["bound"]))
    return "\n".join([*parts, ""])


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


LOCK_TIMEOUT = "500ms"
PATIENCE = timedelta(minutes=5)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_TELL_AFTER, _TELL_EVERY = 1.5, 10.0
# Who has been at it for longest.
_HOLDER = """
select l.pid, c.relname
  from pg_locks l
  join pg_class c on c.oid = l.relation and c.relkind = 'r' and c.relname like 'sendonce\\_%'
  left join pg_stat_activity a on a.pid = l.pid
 where l.granted and l.pid is distinct from pg_backend_pid()
   and l.database = (select d.oid from pg_database d where d.datname = current_database())
 order by a.xact_start, l.pid, c.relname
 limit 1
"""

Answer = TypeVar("Answer")


async def patiently(connection: Connection, work: Callable[[], Awaitable[Answer]], told: Told) -> Answer:
    """Do `work` in a transaction, again and again while somebody holds a lock that it needs; StoreBusy in the end.

    Whom it waits for is `told` now and then.
    """
    give_up_at = time.monotonic() + PATIENCE.total_seconds()
    tell_at = time.monotonic() + _TELL_AFTER
    pause = _FIRST_PAUSE
    while True:
        try:
            async with connection.transaction():
                await connection.execute("select set_config('lock_timeout', %s, true)", (LOCK_TIMEOUT,))
                return await work()
        except (errors.LockNotAvailable, errors.DeadlockDetected):
            if time.monotonic() > give_up_at:
                raise StoreBusy(
                    "a transaction that does not end holds sendonce's tables; find it in pg_stat_activity, end it, and"
                    " run again: sendonce migrate"
                ) from None
        if time.monotonic() > tell_at:
            told(await _holder(connection))
            tell_at = time.monotonic() + _TELL_EVERY
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _holder(connection: Connection) -> Waiting:
    row = await (await connection.execute(_HOLDER)).fetchone()
    return Waiting() if row is None else Waiting(*row)
