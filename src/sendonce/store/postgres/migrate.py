"""Bring a PostgreSQL database to the newest schema under running programs, safe to run twice and from two hosts.

The tables are changed in one transaction that never waits long for a lock: whoever waits for one makes all others wait
behind it, so it gives up soon and tries again. What has to be filled in comes afterwards, in small transactions.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from psycopg import errors

from sendonce.checkpoints import checkpoint
from sendonce.errors import StoreBusy
from sendonce.sql.queries import with_parameters
from sendonce.sql.steps import Query, Row, arun
from sendonce.store.migrations import Applying, Told, Waiting, Work, available, backfill, silent
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
# No program that leaves something to fill in has ever used this database.
_CLOSE_BACKFILL = "insert into sendonce_meta (name, value) values ('{closed}', 'closed');"


async def migrate(url: str, told: Told = silent) -> list[str]:
    """Apply what is missing and fill in what that needs; the names of what was applied."""
    async with translated():
        connection, session = await opened(url)
        try:
            if session.encoding != ENCODING:
                raise wrong_encoding(session.encoding)
            applied = await patiently(connection, lambda: _apply(connection, told), told)
            checkpoint("migrate.after_commit")

            async def execute(asked: Work | timedelta) -> Any:
                if isinstance(asked, timedelta):
                    return await asyncio.sleep(asked.total_seconds())
                return await patiently(connection, partial(_carry_out, connection, asked), told)

            await arun(backfill(available(PACKAGE), told, late=not applied), execute)
            return applied
        finally:
            await connection.close()


async def apply_missing(connection: Connection) -> list[str]:
    """Apply what is missing in the transaction that this connection is in; the names of what was applied.

    The transaction's search_path is another one afterwards.
    """
    await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
    found = await version_on(connection)
    for script in _scripts(found):
        await connection.execute(script.encode())
    return [each.name for each in available(PACKAGE)[found:]]


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
    return "\n".join(["begin;", f"set local lock_timeout = '{LOCK_TIMEOUT}';", *_scripts(from_version), "commit;", ""])


async def _apply(connection: Connection, told: Told) -> list[str]:
    applied = await apply_missing(connection)
    if applied:
        told(Applying(tuple(applied)))
    checkpoint("migrate.before_commit")
    return applied


def _scripts(from_version: int) -> Iterator[str]:
    missing = available(PACKAGE)[from_version:]
    for migration in missing:
        parts = [migration.sql, _SET_VERSION.format(number=migration.number)]
        if migration.backfill:
            parts.append(_BEGIN_BACKFILL.format(state=migration.state, bound=migration.backfill["bound"]))
            if from_version == 0 and migration is not missing[-1]:
                parts.append(_CLOSE_BACKFILL.format(closed=migration.closed))
        yield "\n".join([*parts, ""])


async def _carry_out(connection: Connection, work: Work) -> Any:
    async def execute(query: Query) -> list[Row]:
        sql = work.migration.backfill.get(query.name)
        if sql is None:
            return await fetch(connection, query.name, query.values)
        cursor = await connection.execute(with_parameters(sql, lambda name: f"%({name})s").encode(), query.values)
        return await cursor.fetchall() if cursor.description is not None else []

    return await arun(work.steps(), execute)


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
