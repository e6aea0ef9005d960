"""Brings a PostgreSQL database to the newest schema under running programs, safe to run twice and from two hosts.

The tables are changed in one transaction that never waits long for a lock: whoever waits for one makes all others wait
behind it, so it gives up soon and tries again. What has to be filled in comes afterwards, in small transactions.
"""

from sendonce.checkpoints import checkpoint
from sendonce.store.migrations import Applying, Migration, Told, available, silent
from sendonce.store.postgres.backfilling import backfill
from sendonce.store.postgres.lanes import ENCODING, Connection, connect, opened, translated, wrong_encoding
from sendonce.store.postgres.patience import LOCK_TIMEOUT, patiently

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
