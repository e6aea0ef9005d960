"""Values, rows and errors are the same over every driver of PostgreSQL, whatever its owner has taught it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import psycopg2
import psycopg2.extras
import pytest
from psycopg.rows import dict_row
from psycopg2 import extensions

from sendonce import NotAllowed, SchemaMismatch, SendonceError, ServerReadOnly, StoreBusy, StoreError
from sendonce.errors import BadValue
from sendonce.sql.drivers import names_of
from sendonce.store.postgres.callers import Driver, driver_of
from sendonce.store.postgres.connection import translated
from tests.outbox.databases import Address

AWKWARD = "it's 100% \"quoted\" \\N \\x41 %s %(a)s :b $1 {} \t\n\r\b\f\v ü 😀 '; --"
VALUES: dict[str, Any] = {
    "text": AWKWARD,
    "nothing": None,
    "empty": "",
    "null_sign": "\\N",
    "bytes": bytes(range(256)),
    "whole": -(2**40),
    "small": -7,
    "fraction": -0.5,
    "truth": True,
    "uuid": UUID("01234567-89ab-cdef-0123-456789abcdef"),
    "time": datetime(2026, 2, 28, 23, 59, 59, 999999, UTC),
    "numbers": [1, None, -(2**40)],
    "texts": [AWKWARD, None, "", "null", "{}"],
    "none": [],
}
QUERY = (
    "select %(text)s::text, %(nothing)s::text, %(empty)s::text, %(null_sign)s::text, %(bytes)s::bytea,"
    " %(whole)s::bigint, 1 - %(small)s, %(fraction)s::float, %(truth)s::boolean, %(uuid)s::uuid,"
    " %(time)s::timestamptz, %(numbers)s::bigint[], %(texts)s::text[], %(none)s::text[],"
    " array[[1, 2], [3, 4]]::bigint[], 'a%%b',"
    " interval '90 seconds', 1.50::numeric, '{\"a\": [1]}'::jsonb, current_schema()"
)
READ = [
    *(VALUES[name] for name in ("text", "nothing", "empty", "null_sign", "bytes", "whole")),
    8,
    *(VALUES[name] for name in ("fraction", "truth", "uuid", "time", "numbers", "texts", "none")),
    [[1, 2], [3, 4]],
    "a%b",
    timedelta(seconds=90),
    1.5,
    {"a": [1]},
    "public",
]


@asynccontextmanager
async def over_psycopg(url: str) -> AsyncIterator[Driver]:
    with closing(psycopg.connect(url, row_factory=dict_row)) as connection:
        yield driver_on(connection)
        if not connection.closed:
            connection.rollback()
            assert connection.execute("select 'theirs' as how").fetchall() == [{"how": "theirs"}]


@asynccontextmanager
async def over_psycopg2(url: str) -> AsyncIterator[Driver]:
    with closing(psycopg2.connect(url, cursor_factory=psycopg2.extras.RealDictCursor)) as connection:
        for kind in (17, 20, 25, 1184, 2950):
            extensions.register_type(extensions.new_type((kind,), "THEIRS", lambda *_: "theirs"), connection)
        yield driver_on(connection)
        if not connection.closed:
            connection.rollback()
            with connection.cursor() as cursor:
                cursor.execute("select now() as how")
                assert [dict(row) for row in cursor.fetchall()] == [{"how": "theirs"}]


@asynccontextmanager
async def over_asyncpg(url: str) -> AsyncIterator[Driver]:
    connection = await asyncpg.connect(url)
    for name in ("bytea", "int8", "text", "timestamptz", "uuid", "jsonb"):
        await connection.set_type_codec(name, encoder=str, decoder=lambda _: "theirs", schema="pg_catalog")
    transaction = connection.transaction()
    await transaction.start()
    yield driver_on(connection)
    if not connection.is_closed():
        await transaction.rollback()
        assert await connection.fetchval("select now()") == "theirs"
    await connection.close()


def driver_on(connection: Any) -> Driver:
    driver = driver_of(connection, names_of(connection))
    assert driver is not None
    return driver


OVER: dict[str, Callable[[str], AbstractAsyncContextManager[Driver]]] = {
    "psycopg": over_psycopg,
    "psycopg2": over_psycopg2,
    "asyncpg": over_asyncpg,
}


@pytest.fixture(params=OVER)
async def driver(request: pytest.FixtureRequest, without_tables: Address) -> AsyncIterator[Driver]:
    async with OVER[request.param](without_tables.url) as driver:
        yield driver


async def test_values_go_in_and_come_out_as_they_are(driver: Driver) -> None:
    found = await (await driver.execute(QUERY, VALUES)).fetchall()

    assert [list(row) for row in found] == [READ]
    assert [type(each) for each in found[0][:6]] == [type(each) for each in READ[:6]]


async def test_query_without_values_keeps_its_percent_signs(driver: Driver) -> None:
    found = await driver.execute("select 7 % 4, '%s %% %(a)s'")

    assert await found.fetchone() == (3, "%s %% %(a)s")


async def test_values_can_be_told_by_their_place(driver: Driver) -> None:
    found = await driver.execute("select %s, %s", ("b", "a"))

    assert await found.fetchall() == [("b", "a")]


async def test_statement_that_writes_gives_rows_only_with_returning(driver: Driver) -> None:
    silent = await driver.execute("insert into memos (id) values (%(id)s)", {"id": 1})
    told = await driver.execute(
        "with added as (insert into memos (id) values (2), (3) returning id) select id from added order by id", {}
    )
    none = await driver.execute("delete from memos where id = 9 returning id", {})

    assert (silent.description, await silent.fetchall()) == (None, [])
    assert await told.fetchall() == [(2,), (3,)]
    assert none.description is not None
    assert (await none.fetchall(), await none.fetchone()) == ([], None)


FAILURES = [
    ("insert into memos (id) values (1), (1)", "23505", "memos_pkey", NotAllowed),
    ("insert into memos (id) values (null)", "23502", None, NotAllowed),
    ("select 'secret'::bigint", "22P02", None, BadValue),
    ("select * from nowhere", "42P01", None, SchemaMismatch),
    ("select secret", "42703", None, StoreError),
    ("do $$ begin raise sqlstate 'ZZ123' using message = 'secret'; end $$", "ZZ123", None, StoreError),
    ("do $$ begin raise deadlock_detected using message = 'secret'; end $$", "40P01", None, StoreBusy),
    ("set transaction read only; create table t ()", "25006", None, ServerReadOnly),
    ("select no_such_function('secret')", "42883", None, StoreError),
    ("set local role pg_monitor; select * from memos", "42501", None, StoreError),
]


@pytest.mark.parametrize(("statement", "state", "constraint", "ours"), FAILURES, ids=lambda each: str(each)[:20])
async def test_failure_is_told_as_psycopg_3_tells_it(
    driver: Driver, statement: str, state: str, constraint: str | None, ours: type[SendonceError]
) -> None:
    with pytest.raises(psycopg.Error) as raised:
        await driver.run(statement)
    with pytest.raises(SendonceError) as told:
        async with translated():
            raise raised.value

    assert (raised.value.sqlstate, raised.value.diag.constraint_name) == (state, constraint)
    assert told.type is ours
    assert "secret" not in str(told.value)


async def test_statement_that_fails_is_told_as_a_script_is(driver: Driver) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation) as raised:
        await driver.execute("insert into memos (id) values (%(id)s), (%(id)s) returning id", {"id": 1})

    assert raised.value.diag.constraint_name == "memos_pkey"


async def test_text_that_no_database_takes_is_a_bad_value(driver: Driver) -> None:
    with pytest.raises(BadValue):
        async with translated():
            await driver.execute("select %(text)s", {"text": "a\0b"})


async def test_connection_that_was_cut_is_told_to_be(driver: Driver, without_tables: Address) -> None:
    [[pid]] = await (await driver.execute("select pg_backend_pid()")).fetchall()
    without_tables.look("select pg_terminate_backend(?)", pid)

    for _ in range(2):
        with pytest.raises(StoreBusy, match="PostgreSQL cannot answer now"):
            async with translated():
                await driver.run("select 1")
    assert driver.is_closed
