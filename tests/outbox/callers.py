"""Callers of the outbox, one for each kind of connection: the same few verbs over every driver."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import aiosqlite
import asyncpg
import psycopg
import psycopg2
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from sqlalchemy.pool import NullPool

from sendonce import Draft, Outbox, Published, Requested, RequestState
from tests.outbox.databases import Address, sqlite_connection

AUTOCOMMIT = "AUTOCOMMIT"


@dataclass
class Caller:
    """A caller's open connection. Verbs of its driver come in as functions, sync or not."""

    connection: Any
    execute: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]
    is_async: bool
    outbox: Outbox = field(default_factory=Outbox)

    async def publish(self, *arguments: Any, **named: Any) -> Published:
        if self.is_async:
            return await self.outbox.apublish(self.connection, *arguments, **named)
        return self.outbox.publish(self.connection, *arguments, **named)

    async def publish_many(self, drafts: Iterable[Draft], **named: Any) -> list[Published]:
        if self.is_async:
            return await self.outbox.apublish_many(self.connection, drafts, **named)
        return self.outbox.publish_many(self.connection, drafts, **named)

    async def request(self, *arguments: Any, **named: Any) -> Requested:
        if self.is_async:
            return await self.outbox.arequest(self.connection, *arguments, **named)
        return self.outbox.request(self.connection, *arguments, **named)

    async def request_state(self, request_id: int) -> RequestState | None:
        if self.is_async:
            return await self.outbox.arequest_state(self.connection, request_id)
        return self.outbox.request_state(self.connection, request_id)

    async def do(self, *statements: str) -> None:
        for statement in statements:
            await self._settled(self.execute(statement))

    async def end(self, how: Literal["commit", "rollback"]) -> None:
        await self._settled(self.commit() if how == "commit" else self.rollback())

    async def _settled(self, answer: Any) -> None:
        if self.is_async:
            await answer


Opener = Callable[..., AbstractAsyncContextManager[Caller]]


@asynccontextmanager
async def sqlite3_caller(address: Address, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    connection = sqlite_connection(address, isolation_level=None if autocommit else "")
    yield Caller(connection, connection.execute, connection.commit, connection.rollback, is_async=False)
    connection.close()


@asynccontextmanager
async def aiosqlite_caller(address: Address, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    level: Any = None if autocommit else ""
    async with aiosqlite.connect(address.url.removeprefix("sqlite:///"), isolation_level=level) as connection:
        yield Caller(connection, connection.execute, connection.commit, connection.rollback, is_async=True)


@asynccontextmanager
async def psycopg_caller(address: Address, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    with psycopg.connect(address.url, autocommit=autocommit) as connection:
        yield Caller(connection, connection.execute, connection.commit, connection.rollback, is_async=False)


@asynccontextmanager
async def async_psycopg_caller(address: Address, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(address.url, autocommit=autocommit) as connection:
        yield Caller(connection, connection.execute, connection.commit, connection.rollback, is_async=True)


@asynccontextmanager
async def psycopg2_caller(address: Address, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    connection = psycopg2.connect(address.url)
    connection.autocommit = autocommit

    def execute(statement: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    yield Caller(connection, execute, connection.commit, connection.rollback, is_async=False)
    connection.close()


@asynccontextmanager
async def asyncpg_caller(address: Address, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(address.url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction: Any = None

        async def begin() -> None:
            nonlocal transaction
            transaction = connection.transaction()
            await transaction.start()

        async def end(how: Literal["commit", "rollback"]) -> None:
            await getattr(transaction, how)()
            await begin()

        if not autocommit:
            await begin()
        yield Caller(connection, connection.execute, lambda: end("commit"), lambda: end("rollback"), is_async=True)
        if not autocommit:
            await transaction.rollback()


def sqlalchemy_caller(driver: str, *, session: bool) -> Opener:
    @asynccontextmanager
    async def opener(address: Address, *, autocommit: bool = False) -> AsyncIterator[Caller]:
        engine = sqlalchemy.create_engine(_url(address, driver), poolclass=NullPool, **_level(autocommit))
        made = sqlalchemy.orm.Session(engine) if session else engine.connect()
        with made as connection:
            yield Caller(
                connection,
                lambda statement: connection.execute(sqlalchemy.text(statement)),
                connection.commit,
                connection.rollback,
                is_async=False,
            )
        engine.dispose()

    return opener


def async_sqlalchemy_caller(driver: str, *, session: bool) -> Opener:
    @asynccontextmanager
    async def opener(address: Address, *, autocommit: bool = False) -> AsyncIterator[Caller]:
        url = _url(address, driver)
        engine = sqlalchemy.ext.asyncio.create_async_engine(url, poolclass=NullPool, **_level(autocommit))
        made = sqlalchemy.ext.asyncio.AsyncSession(engine) if session else engine.connect()
        async with made as connection:
            yield Caller(
                connection,
                lambda statement: connection.execute(sqlalchemy.text(statement)),
                connection.commit,
                connection.rollback,
                is_async=True,
            )
        await engine.dispose()

    return opener


def _url(address: Address, driver: str) -> str:
    return f"{address.dialect}+{driver}://{address.url.partition('://')[2]}"


def _level(autocommit: bool) -> dict[str, Any]:
    return {"isolation_level": AUTOCOMMIT} if autocommit else {}


SQLITE: dict[str, Opener] = {
    "sqlite3": sqlite3_caller,
    "aiosqlite": aiosqlite_caller,
    "sqlalchemy-connection-pysqlite": sqlalchemy_caller("pysqlite", session=False),
    "sqlalchemy-session-pysqlite": sqlalchemy_caller("pysqlite", session=True),
    "sqlalchemy-connection-aiosqlite": async_sqlalchemy_caller("aiosqlite", session=False),
    "sqlalchemy-session-aiosqlite": async_sqlalchemy_caller("aiosqlite", session=True),
}
POSTGRES: dict[str, Opener] = {
    "psycopg": psycopg_caller,
    "psycopg-async": async_psycopg_caller,
    "psycopg2": psycopg2_caller,
    "asyncpg": asyncpg_caller,
    "sqlalchemy-connection-psycopg": sqlalchemy_caller("psycopg", session=False),
    "sqlalchemy-session-psycopg": sqlalchemy_caller("psycopg", session=True),
    "sqlalchemy-connection-psycopg2": sqlalchemy_caller("psycopg2", session=False),
    "sqlalchemy-session-psycopg2": sqlalchemy_caller("psycopg2", session=True),
    "sqlalchemy-connection-asyncpg": async_sqlalchemy_caller("asyncpg", session=False),
    "sqlalchemy-session-asyncpg": async_sqlalchemy_caller("asyncpg", session=True),
    "sqlalchemy-connection-psycopg-async": async_sqlalchemy_caller("psycopg", session=False),
    "sqlalchemy-session-psycopg-async": async_sqlalchemy_caller("psycopg", session=True),
}
