"""Brings a PostgreSQL database to the newest schema: under a lock, in one transaction, safe to run twice."""

from sendonce.stores.migrations import Migration, available
from sendonce.stores.postgres.lanes import Connection, connect, translated

PACKAGE = "sendonce.stores.postgres"
# Any number will do, as long as every version of the program takes the same one.
_LOCK = 0x53454E444F4E4345
_SET_VERSION = (
    "insert into sendonce_meta (name, value) values ('schema_version', '{number}')\n"
    "on conflict (name) do update set value = excluded.value;"
)


async def migrate(url: str) -> list[str]:
    """Apply what is missing; the names of what was applied."""
    async with translated():
        connection = await connect(url)
        try:
            async with connection.transaction():
                await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
                found = await version_on(connection)
                missing = [each for each in available(PACKAGE) if each.number > found]
                for migration in missing:
                    await connection.execute(_script(migration).encode())
                return [each.name for each in missing]
        finally:
            await connection.close()


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
    """The migrations above a version as one script for other tools."""
    scripts = [_script(each) for each in available(PACKAGE) if each.number > from_version]
    return "\n".join(["begin;", *scripts, "commit;", ""])


def _script(migration: Migration) -> str:
    return f"{migration.sql}\n{_SET_VERSION.format(number=migration.number)}\n"
