"""Alembic's side of a migration: runs an application's versions on the engine that it was given."""

import asyncio

from alembic import context
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine


def run() -> None:
    """What an application's `migrations/env.py` calls. The versions are kept apart from those of other applications."""
    asyncio.run(_upgrade(context.config.attributes["engine"], str(context.config.get_main_option("script_location"))))


async def _upgrade(engine: AsyncEngine, location: str) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(_run, location)
    await engine.dispose()


def _run(connection: Connection, location: str) -> None:
    name = location.rstrip("/").split("/")[-2]
    context.configure(connection=connection, version_table=f"{name}_versions", transaction_per_migration=False)
    with context.begin_transaction():
        context.run_migrations()
