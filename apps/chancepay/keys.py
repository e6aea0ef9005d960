"""API keys of a service: shown once, stored as a hash, with one role each, and revoked without touching the others."""

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import BigInteger, Column, DateTime, Integer, MetaData, String, Table, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from sendonce.contrib.fastapi import ANSWERS, Problem
from sendonce.contrib.sqlalchemy import ain_transaction, areading

Role: TypeAlias = Literal["caller", "internal"]
_SCHEME = HTTPBearer(auto_error=False, description="an API key")
WITH_KEY: dict[int | str, dict[str, Any]] = {
    **ANSWERS,
    401: {"model": Problem, "description": "No API key, or one that is not known or was revoked"},
    403: {"model": Problem, "description": "A key that is for something else"},
    413: {"model": Problem, "description": "The request is too large"},
}

keys = Table(
    "api_keys",
    MetaData(),
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("key_hash", String(64), nullable=False, unique=True),
    Column("name", String(100), nullable=False),
    Column("role", String(20), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("revoked_at", DateTime(timezone=True)),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling. Several keys may have one name: a new one is handed out before the old one is revoked."""

    name: str
    role: str


async def new_key(engine: AsyncEngine, name: str, role: Role) -> str:
    """Make a key, which is not stored and cannot be shown again."""
    key = f"key_{secrets.token_urlsafe(24)}"
    row = {"key_hash": _hash(key), "name": name, "role": role, "created_at": datetime.now(UTC)}

    async def add(connection: AsyncConnection) -> None:
        await connection.execute(insert(keys).values(row))

    await ain_transaction(engine, add)
    return key


async def revoke_keys(engine: AsyncEngine, name: str) -> int:
    """End every key of this name from now on; how many there were."""
    ended = update(keys).where(keys.c.name == name, keys.c.revoked_at.is_(None)).values(revoked_at=datetime.now(UTC))

    async def revoke(connection: AsyncConnection) -> int:
        return (await connection.execute(ended)).rowcount

    return await ain_transaction(engine, revoke)


async def caller_of(engine: AsyncEngine, key: str) -> Caller | None:
    """Whose key this is; None when it is not known, or was revoked."""
    query = select(keys.c.name, keys.c.role).where(keys.c.key_hash == _hash(key), keys.c.revoked_at.is_(None))
    async with areading(engine) as connection:
        row = (await connection.execute(query)).one_or_none()
    return None if row is None else Caller(row.name, row.role)


def calling(role: Role) -> Callable[[Request, HTTPAuthorizationCredentials | None], Awaitable[Caller]]:
    """A dependency: who is calling, with a key for this role; 401 and 403 for everybody else."""

    async def check(
        request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_SCHEME)]
    ) -> Caller:
        caller = None if given is None else await caller_of(request.app.state.engine, given.credentials)
        if caller is None:
            raise HTTPException(
                401, "send your API key as: authorization: Bearer key_…", {"www-authenticate": "Bearer"}
            )
        if caller.role != role:
            raise HTTPException(403, f"this key is for {caller.role} routes; this one needs a key that is {role}")
        return caller

    return check


def _hash(key: str) -> str:
    """Keys are long and random, so a plain hash cannot be guessed backwards."""
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()
