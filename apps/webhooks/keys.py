"""API keys: who is calling. A key is shown once; the database has its hash."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field
from sqlalchemy import Column, DateTime, MetaData, String, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from sendonce.contrib.fastapi import Line
from sendonce.contrib.sqlalchemy import ain_transaction, areading

MIGRATIONS = Path(__file__).parent / "migrations"
DEMO_TENANTS = ("acme", "globex")
Tenant: TypeAlias = Annotated[Line, Field(max_length=100)]

keys = Table(
    "webhooks_keys",
    MetaData(),
    Column("key_hash", String(64), primary_key=True),
    Column("tenant", String(100), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
)


async def tenant_of(engine: AsyncEngine, key: str) -> str | None:
    """Whose key this is."""
    async with areading(engine) as connection:
        return await connection.scalar(select(keys.c.tenant).where(keys.c.key_hash == _hash(key)))


async def new_keys(engine: AsyncEngine, tenants: Sequence[str], *, only_first: bool = False) -> dict[str, str]:
    """A new key for each of these tenants, by name; none when there are keys already and `only_first` is wanted."""

    async def add(connection: AsyncConnection) -> dict[str, str]:
        if only_first and await connection.scalar(select(keys.c.tenant).limit(1)):
            return {}
        made = {tenant: f"key_{secrets.token_urlsafe(24)}" for tenant in tenants}
        now = datetime.now(UTC)
        rows = [{"key_hash": _hash(key), "tenant": tenant, "created_at": now} for tenant, key in made.items()]
        await connection.execute(insert(keys), rows)
        return made

    return await ain_transaction(engine, add)


def _hash(key: str) -> str:
    """Keys are long and random, so a plain hash cannot be guessed backwards."""
    return hashlib.sha256(key.encode()).hexdigest()
