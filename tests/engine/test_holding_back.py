"""A running worker and the operators: stop and resume, pause and resume, at once or within a second."""

import pytest

from sendonce.domain.outcomes import Delivered
from sendonce.store.ports import Store
from tests.engine.faults import Faulty, faulty
from tests.engine.rig import Told, after, given_many, serving, working
from tests.given import given_due_delivery
from tests.processes import until_async
from tests.store.databases import Database

SCOPES = {"all": "", "channel": "test", "destination": "test:a", "tenant": "acme"}


def leased(database: Database) -> int:
    return int(database.one("select count(*) from sendonce_attempts where status = 'Leased'"))


def completed(database: Database) -> int:
    return int(database.one("select count(*) from sendonce_deliveries where status = 'Completed'"))


async def sent_nothing(channel: Told, watched: Faulty) -> bool:
    """Although it has looked again and again."""
    before, looks = len(channel.sent), len(watched.calls)
    await until_async(lambda: len(watched.calls) > looks + 5, "some more looks")
    return len(channel.sent) == before


@pytest.mark.parametrize("scope", SCOPES)
async def test_stop_holds_back_what_it_names_until_it_is_lifted(database: Database, store: Store, scope: str) -> None:
    channel = Told(Delivered())
    people = await database.open()
    watched, wrapped = faulty(store)
    async with working(wrapped, serving(channel, "test", "null")):
        given_due_delivery(database, to="test:a", tenant="acme")
        await until_async(lambda: completed(database) == 1, "the first")

        await people.stop(scope, SCOPES[scope], operator="ada", reason="a bad template")
        given_due_delivery(database, key="held", to="test:a", tenant="acme")
        assert await sent_nothing(channel, watched)
        if scope != "all":
            given_due_delivery(database, to="test:b" if scope == "destination" else "null:a", tenant="other")
            await until_async(lambda: len(database.rows("attempts")) > 1, "what is not held back")
        await people.resume(scope, SCOPES[scope], operator="ada")

        await until_async(lambda: "held" in {message.key for message in channel.sent}, "what was held back")


async def test_stop_takes_hold_at_once_in_the_middle_of_a_flood(database: Database, store: Store) -> None:
    given_many(database, 1000)
    channel = Told(after(0.02, Delivered()))
    people = await database.open()
    watched, wrapped = faulty(store)

    async with working(wrapped, serving(channel), concurrency=5):
        await until_async(lambda: len(channel.sent) > 10, "the flood")
        await people.stop("all", "", operator="ada", reason=None)
        already = len(channel.sent)
        await until_async(lambda: not leased(database), "the end of what was in flight")
        assert await sent_nothing(channel, watched)
        assert len(channel.sent) <= already + 5, "what was claimed before it"


async def test_paused_subscription_is_parked_and_goes_on_when_it_is_resumed(database: Database, store: Store) -> None:
    channel = Told(Delivered())
    people = await database.open()
    subscription_id = await people.add_subscription(
        tenant="", types=["memo.*"], destination="test:a", policy=None, description=None, operator="ada"
    )
    async with working(store, serving(channel)):
        await people.set_subscription_state(subscription_id, "paused", operator="ada", reason="holiday")
        for number in range(3):
            database.publish("memo.created", {}, key=f"memo-{number}", to=None)
        await until_async(lambda: parked(database) == 3, "three parked")
        assert channel.sent == []

        await people.set_subscription_state(subscription_id, "active", operator="ada", reason=None)
        await until_async(lambda: completed(database) == 3, "all three")

    assert len(channel.sent) == 3


def parked(database: Database) -> int:
    return int(database.one("select count(*) from sendonce_deliveries where parked_on is not null"))


async def test_parked_deliveries_in_front_do_not_hold_up_others(database: Database, store: Store) -> None:
    given_many(database, 300, to="held:a")
    given_due_delivery(database, to="test:a")
    await store.stop("channel", "held", operator="ada", reason=None)
    channel = Told(Delivered())

    async with working(store, serving(channel, "test", "held"), concurrency=5):
        await until_async(lambda: completed(database) == 1, "the one behind")

    assert [message.address for message in channel.sent] == ["test:a"]
