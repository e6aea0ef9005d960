"""A transaction that never waits long for a lock: whoever waits for one makes all others wait behind it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from psycopg import errors

from sendonce.errors import StoreBusy
from sendonce.store.migrations import Told, Waiting
from sendonce.store.postgres.lanes import Connection

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
