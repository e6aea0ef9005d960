"""People, retention and erasures at the same time: each is halted between two of its own statements."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from sendonce.admin.erase import erase
from sendonce.domain.outcomes import Delivered, Refused
from sendonce.errors import NotAllowed, StoreBusy
from sendonce.outbox.outbox import Outbox
from sendonce.store.bulk import REPLAY, REQUEUE
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from sendonce.store.postgres.connection import QUERIES
from sendonce.store.upkeep import Person, Stage
from tests.given import given_event, given_lease, settle_with
from tests.processes import SECONDS, until_async
from tests.store.aging import backdate
from tests.store.bulkwork import begun, step
from tests.store.databases import PostgresDatabase

DAY = timedelta(days=1)
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
Other = Callable[[Store, int], Awaitable[object]]


class Halt:
    """Halts whoever comes first to a query, before it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        real = psycopg.AsyncConnection.execute

        async def execute(connection: Any, query: Any, *args: Any, **options: Any) -> Any:
            if query == QUERIES[name] and not self.reached.is_set():
                self.reached.set()
                await self.go.wait()
            return await real(connection, query, *args, **options)

        monkeypatch.setattr(psycopg.AsyncConnection, "execute", execute)


async def given_letter(database: PostgresDatabase, store: Store, to: str = "null:ada") -> int:
    """A dead letter; its id."""
    given_event(database, to=to)
    lease = await given_lease(store)
    await settle_with(store, lease, Refused("410"))
    await store.release([lease.id])
    return int(database.rows("dead_letters")[-1]["id"])


async def erase_ada(store: Store, _: int) -> None:
    async for _done in erase(store, Person(destination="null:ada"), shared=False, operator="eve", reason="asked"):
        pass


async def requeue(store: Store, letter_id: int) -> None:
    await store.open_generations([letter_id], kind="requeue", operator="eve", reason="again")


async def discard(store: Store, letter_id: int) -> None:
    await store.discard([letter_id], operator="eve", reason="never")


async def meanwhile(
    database: PostgresDatabase, halted: Awaitable[object], halt: Halt, other: Awaitable[object]
) -> list[object]:
    """Let the second come in while the first is halted, until it has to wait or is done; what both came to."""
    first = asyncio.ensure_future(halted)
    await asyncio.wait_for(halt.reached.wait(), SECONDS)
    second = asyncio.ensure_future(other)
    await until_async(lambda: second.done() or database.one(WAITING), "the second to be done, or to wait")
    halt.go.set()
    return list(await asyncio.gather(first, second, return_exceptions=True))


async def test_correction_to_another_address_keeps_its_content_from_an_erasure_of_the_old_one(
    database: PostgresDatabase, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await database.open()
    letter_id = await given_letter(database, store)
    halt = Halt(monkeypatch, "add_correction")

    correction = store.correct(letter_id, content=None, destination="null:bob", operator="ada", reason="typo")
    await meanwhile(database, correction, halt, erase_ada(other, letter_id))

    [claim] = (await given_lease(store)).claims
    assert (claim.destination, claim.payload) == ("null:bob", '{"memo":1}')


async def test_replay_by_filter_keeps_its_content_from_retention(
    database: PostgresDatabase, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await database.open()
    given_event(database, to="null:a")
    await settle_with(store, await given_lease(store), Delivered("n-1"))
    backdate(database, 40 * DAY)
    operation = await begun(store, REPLAY, Filter(even_if_sent=True))
    halt = Halt(monkeypatch, "open_generations")

    await meanwhile(database, step(store, operation), halt, other.retain(Stage.PAYLOADS, 0, limit=10, age=30 * DAY))

    [claim] = (await given_lease(store)).claims
    assert claim.payload is not None


@pytest.mark.parametrize("kind", [REQUEUE, REPLAY])
@pytest.mark.parametrize("place", ["close_dead_letters_of", "open_generations"])
async def test_requeue_or_replay_by_filter_and_a_discard_have_one_winner(
    database: PostgresDatabase, store: Store, monkeypatch: pytest.MonkeyPatch, place: str, kind: str
) -> None:
    other = await database.open()
    letter_id = await given_letter(database, store)
    operation = await begun(store, kind)
    halt = Halt(monkeypatch, place)

    await meanwhile(database, step(store, operation), halt, discard(other, letter_id))

    [letter] = database.rows("dead_letters")
    opened = database.one("select count(*) from sendonce_deliveries where generation = 1")
    assert opened == (letter["closed_as"] == "requeued")


@pytest.mark.parametrize("act", [erase_ada, requeue, discard])
@pytest.mark.parametrize("place", ["lock_deliveries", "attest"])
async def test_attestation_waits_for_nobody_who_waits_for_it(
    database: PostgresDatabase, store: Store, monkeypatch: pytest.MonkeyPatch, place: str, act: Other
) -> None:
    other = await database.open()
    letter_id = await given_letter(database, store)
    halt = Halt(monkeypatch, place)

    attested = store.attest([letter_id], operator="ada", reason="seen")
    answers = await meanwhile(database, attested, halt, act(other, letter_id))

    assert not [each for each in answers if isinstance(each, StoreBusy)], "no deadlock"
    assert all(each is None or not isinstance(each, Exception) or isinstance(each, NotAllowed) for each in answers)
    assert database.one("select count(*) from sendonce_deliveries where generation = 1") <= 1


async def test_key_of_a_request_is_never_left_without_its_request(database: PostgresDatabase, store: Store) -> None:
    def ask(connection: Any, key: str) -> int:
        return Outbox().request(connection, "a", {}, key=key, subject="s", version=1, required="null:a").request_id

    with database.connection() as connection:
        first = ask(connection, "k1")
    await settle_with(store, await given_lease(store), Delivered("n-1"))
    backdate(database, 100 * DAY)
    with database.connection() as connection:
        assert ask(connection, "k2") == first
        await store.retain(Stage.KEYS, 0, limit=10, age=90 * DAY)

    assert {row["request_id"] for row in database.rows("request_keys")} == {first}
    await store.retain(Stage.KEYS, 0, limit=10, age=90 * DAY)
    assert (database.rows("request_keys"), database.rows("requests")) == ([], [])
    with database.connection() as connection:
        assert ask(connection, "k2") > first
