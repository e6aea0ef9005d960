"""Many take at once what a rate or a breaker gives: together they get no more than there is."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from sendonce.domain.breakers import Answers, Pauses
from sendonce.store.ports import Store
from tests.given import HOLD
from tests.processes import until_async
from tests.store.databases import Database, PostgresDatabase

S = timedelta(seconds=1)
ROOM = "destination:https://slow.example/hook"
PAUSES = Pauses(first=10 * S, longest=60 * S)
TAKERS = 4
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


async def at_once(database: Database, table: str, take: Callable[[Store], Awaitable[Any]]) -> list[Any]:
    """Stores of their own take when somebody who holds this table's rows, on SQLite the file, lets go of them."""
    stores = [await database.open() for _ in range(TAKERS)]
    with database.connection() as holder:
        if isinstance(database, PostgresDatabase):
            holder.execute(f"select 1 from sendonce_{table} for update")
        taking = [asyncio.ensure_future(take(store)) for store in stores]
        if isinstance(database, PostgresDatabase):
            await until_async(lambda: database.one(WAITING) == TAKERS, "all of them at the gate")
        else:
            await asyncio.sleep(0)  # each has a thread that asks for the one lock there is
    return await asyncio.gather(*taking)


async def a_rate(store: Store, rate: float) -> int:
    id = await store.add_subscription(
        tenant="", types=["*"], destination="https://slow.example/", policy=None, description=None, operator="ada",
        rate=rate,
    )  # fmt: skip
    assert await store.take_tokens(id, 1) == 1
    return id


async def test_token_is_given_once(database: Database, store: Store) -> None:
    id = await a_rate(store, 0.01)
    database.advance(200 * S)

    given = await at_once(database, "buckets", lambda taker: taker.take_tokens(id, 1))

    assert sorted(given) == [0, 0, 0, 1]


async def test_tokens_that_are_given_back_at_once_are_all_there(database: Database, store: Store) -> None:
    id = await a_rate(store, 100.0)
    database.execute("update sendonce_buckets set tokens = 0")

    await at_once(database, "buckets", lambda taker: taker.give_back_tokens(id, 5))

    assert database.one("select tokens from sendonce_buckets") == 5 * TAKERS


async def test_probe_is_given_to_one_of_many(database: Database, store: Store) -> None:
    await store.trip(ROOM, pause=S, code=None)
    database.advance(2 * S)

    given = await at_once(database, "breakers", lambda taker: taker.let_out(ROOM, 5, HOLD))

    assert sorted(out.amount for out in given) == [0, 0, 0, 1]


async def test_probe_in_flight_by_others_is_not_let_out_again(database: Database, store: Store) -> None:
    await store.trip(ROOM, pause=S, code=None)
    database.advance(2 * S)
    probe = await store.let_out(ROOM, 1, HOLD)
    await store.learn(ROOM, probe.turn, Answers(through=1), PAUSES)
    round_of_two = await store.let_out(ROOM, 2, HOLD)
    await store.learn(ROOM, round_of_two.turn, Answers(through=2), PAUSES)

    given = await at_once(database, "breakers", lambda taker: taker.let_out(ROOM, 3, HOLD))

    assert sum(out.amount for out in given) == 4
    assert (await store.let_out(ROOM, 3, HOLD)).amount == 0


async def test_answers_that_come_at_once_are_all_counted(database: Database, store: Store) -> None:
    await store.trip(ROOM, pause=S, code=None)
    database.advance(2 * S)
    turn = (await store.let_out(ROOM, 1, HOLD)).turn
    await store.learn(ROOM, turn, Answers(through=1), PAUSES)
    turn = (await store.let_out(ROOM, 2, HOLD)).turn
    for _ in range(3):  # a round of sixteen
        await store.learn(ROOM, turn, Answers(through=8), PAUSES)

    await at_once(database, "breakers", lambda taker: taker.learn(ROOM, turn, Answers(failed=1), PAUSES))

    assert database.one("select failed from sendonce_breakers") == TAKERS


async def test_breaker_is_opened_once(database: Database, store: Store) -> None:
    stores = [await database.open() for _ in range(TAKERS)]

    opened = await asyncio.gather(*[each.trip(ROOM, pause=S, code=None) for each in stores])

    assert sorted(opened) == [False, False, False, True]
