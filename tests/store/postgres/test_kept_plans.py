"""A plan that a session keeps is made anew now and then: the tables that it was made for have grown since."""

import pytest

from sendonce.store.postgres.connection import FIRST_REPLAN, PREPARE_AFTER, REPLAN_EVERY, REPLAN_TIMES, OwnConnection
from tests.store.databases import PostgresDatabase

ASKED = "select name from things where id = %s"


async def uses(lane: OwnConnection, amount: int) -> None:
    for _ in range(amount):
        async with lane.connection() as connection:
            await connection.execute(ASKED, (1,))


async def kept_plan(lane: OwnConnection) -> str:
    """The plan that the session would use now. Looking at it counts as a use."""
    async with lane.connection() as connection:
        cursor = await connection.execute(
            "select name from pg_prepared_statements where statement like 'select name from things%'", prepare=False
        )
        [(name,)] = await cursor.fetchall()
        cursor = await connection.execute(f'explain execute "{name}"(1)', prepare=False)
        return "\n".join(row[0] for row in await cursor.fetchall())


@pytest.fixture
def growing(database: PostgresDatabase) -> PostgresDatabase:
    """A database with a table that has one row, as the planner knows."""
    database.execute("create table things (id bigint primary key, name text not null) with (autovacuum_enabled = off)")
    database.execute("insert into things values (1, 'one')")
    database.execute("analyze things")
    return database


def grow(database: PostgresDatabase) -> None:
    database.execute("insert into things select n, repeat('x', 100) from generate_series(2, 20000) n")


async def test_plan_for_a_small_table_is_made_anew_when_that_has_grown(growing: PostgresDatabase) -> None:
    lane = OwnConnection(growing.url, prepares=True)
    await uses(lane, FIRST_REPLAN)
    assert "Seq Scan" in await kept_plan(lane)  # the first use that makes it anew: the table is still small
    grow(growing)
    assert "Seq Scan" in await kept_plan(lane)

    await uses(lane, REPLAN_TIMES * FIRST_REPLAN)

    assert "Index Scan" in await kept_plan(lane)
    await lane.close()


async def test_plans_are_made_anew_for_as_long_as_a_session_lasts(growing: PostgresDatabase) -> None:
    lane = OwnConnection(growing.url, prepares=True)
    await uses(lane, 4 * REPLAN_EVERY)
    grow(growing)

    await uses(lane, REPLAN_EVERY + 1)

    assert "Index Scan" in await kept_plan(lane)
    await lane.close()


async def test_session_that_keeps_no_plans_has_none_to_make_anew(growing: PostgresDatabase) -> None:
    lane = OwnConnection(growing.url)
    await uses(lane, 2 * FIRST_REPLAN)

    async with lane.connection() as connection:
        cursor = await connection.execute("select count(*) from pg_prepared_statements")
        assert await cursor.fetchall() == [(0,)]
        assert (connection.prepare_threshold, PREPARE_AFTER) == (None, 2)
    await lane.close()
