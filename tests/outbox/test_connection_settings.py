"""Callers set up their connections as they like: rows, texts and cursors of their own kinds."""

import sqlite3
from contextlib import closing
from typing import Any

import asyncpg
import psycopg
import psycopg2
import psycopg2.extras
import pytest
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from psycopg.rows import dict_row

from sendonce import Draft, Email, Outbox
from tests.outbox.databases import Address, sqlite_connection

OUTBOX = Outbox()
DRAFTS = [Draft("memo.created", {"n": key}, key=key, to=Email("a@b.example", text=key)) for key in ("a", "b")]
COUNTS = {"events": 2, "deliveries": 2, "contents": 2}


def publish_all(connection: Any) -> None:
    """New ones, and the same again, one by one and together."""
    for draft in DRAFTS:
        OUTBOX.publish_many(connection, [draft])
    assert all(each.duplicate for each in OUTBOX.publish_many(connection, DRAFTS))
    assert OUTBOX.publish_many(connection, DRAFTS[:1])[0].duplicate


@pytest.mark.parametrize("text_factory", [str, bytes])
@pytest.mark.parametrize("row_factory", [None, sqlite3.Row, lambda cursor, row: {"row": row}])
def test_sqlite_rows_and_texts(sqlite_address: Address, row_factory: Any, text_factory: Any) -> None:
    with closing(sqlite_connection(sqlite_address)) as connection:
        connection.row_factory = row_factory
        connection.text_factory = text_factory
        publish_all(connection)
        connection.commit()
        assert connection.row_factory is row_factory

    assert sqlite_address.counts() == COUNTS


@pytest.mark.parametrize("cursor_factory", [psycopg.Cursor, psycopg.ClientCursor, psycopg.RawCursor])
def test_psycopg_cursors(postgres_address: Address, cursor_factory: Any) -> None:
    with psycopg.connect(
        postgres_address.url, cursor_factory=cursor_factory, row_factory=dict_row, prepare_threshold=None
    ) as connection:
        publish_all(connection)

    assert postgres_address.counts() == COUNTS


def test_psycopg2_cursors(postgres_address: Address) -> None:
    factory = psycopg2.extras.RealDictCursor
    with closing(psycopg2.connect(postgres_address.url, cursor_factory=factory)) as connection:
        publish_all(connection)
        connection.commit()

    assert postgres_address.counts() == COUNTS


async def test_asyncpg_codecs_and_cache(postgres_address: Address) -> None:
    connection = await asyncpg.connect(postgres_address.url, statement_cache_size=0)
    for kind in ("json", "jsonb", "uuid", "timestamptz"):
        await connection.set_type_codec(kind, schema="pg_catalog", encoder=repr, decoder=repr)
    async with connection.transaction():
        await OUTBOX.apublish_many(connection, DRAFTS)
        again = await OUTBOX.apublish(connection, *DRAFTS[0][:2], key=DRAFTS[0].key, to=DRAFTS[0].to)
    await connection.close()

    assert again.duplicate
    assert postgres_address.counts() == COUNTS


def test_connection_class_of_ones_own(sqlite_address: Address) -> None:
    class Own(sqlite3.Connection):
        pass

    with closing(sqlite_connection(sqlite_address, factory=Own)) as connection:
        publish_all(connection)
        connection.commit()

    assert sqlite_address.counts() == COUNTS


def test_scoped_session(sqlite_address: Address) -> None:
    engine = sqlalchemy.create_engine(sqlite_address.url)
    scoped = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(engine))
    publish_all(scoped)
    scoped.commit()
    scoped.remove()
    engine.dispose()

    assert sqlite_address.counts() == COUNTS


async def test_async_scoped_session(sqlite_address: Address) -> None:
    engine = sqlalchemy.ext.asyncio.create_async_engine(f"sqlite+aiosqlite:{sqlite_address.url.partition(':')[2]}")
    maker = sqlalchemy.ext.asyncio.async_sessionmaker(engine)
    scoped = sqlalchemy.ext.asyncio.async_scoped_session(maker, scopefunc=lambda: None)
    await OUTBOX.apublish_many(scoped, DRAFTS)
    await scoped.commit()
    await scoped.remove()
    await engine.dispose()

    assert sqlite_address.counts() == COUNTS


def test_sqlalchemy_where_the_engine_itself_begins_on_sqlite(sqlite_address: Address) -> None:
    """The recipe for full transactions on SQLite: the driver's own are off, BEGIN comes from an event."""
    engine = sqlalchemy.create_engine(sqlite_address.url, connect_args={"isolation_level": None})
    sqlalchemy.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("begin immediate"))
    with engine.connect() as connection:
        publish_all(connection)
        connection.rollback()
        assert sqlite_address.counts()["events"] == 0
        publish_all(connection)
        connection.commit()
    engine.dispose()

    assert sqlite_address.counts() == COUNTS


def test_session_with_rows_of_its_own_that_are_flushed_later(sqlite_address: Address) -> None:
    class Base(sqlalchemy.orm.DeclarativeBase):
        pass

    class Memo(Base):
        __tablename__ = "memos"
        id: sqlalchemy.orm.Mapped[int] = sqlalchemy.orm.mapped_column(primary_key=True)
        body: sqlalchemy.orm.Mapped[str]

    engine = sqlalchemy.create_engine(sqlite_address.url)
    with sqlalchemy.orm.Session(engine) as session:
        memo = Memo(body="own")
        session.add(memo)
        OUTBOX.publish(session, "memo.created", {}, key="before the flush", to=None)
        session.flush()
        OUTBOX.publish(session, "memo.created", {"id": memo.id}, key=("memo", memo.id), to=None)
        session.commit()
    engine.dispose()

    assert sqlite_address.counts()["events"] == 2
    assert sqlite_address.count("memos") == 1
