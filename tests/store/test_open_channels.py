"""What is open, by channel: how long its oldest is on its way, its breakers, and what is parked by which cause."""

from datetime import timedelta

import pytest

from sendonce.domain.breakers import Answers, Pauses
from sendonce.domain.outcomes import Delivered, Failed
from sendonce.domain.policies import Policy
from sendonce.store.ports import Store
from sendonce.store.records import ChannelRow
from tests.alarms import let_pass
from tests.given import given_due_delivery, given_lease, later, settle_with
from tests.store.databases import Database

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
SLOW = Policy(first_delay=HOUR, longest_delay=HOUR)
HOOK = "https://dead.example/hook"


async def of(store: Store, scheme: str) -> ChannelRow:
    [row] = [row for row in await store.open_channels() if row.scheme == scheme]
    return row


async def age_of(database: Database, store: Store, scheme: str) -> timedelta:
    oldest = (await of(store, scheme)).oldest_open_at
    assert oldest is not None
    return database.now() - oldest


async def given_parked(database: Database, store: Store, to: str = HOOK) -> int:
    """A delivery that waits because of a breaker, with nothing due."""
    await store.trip(f"destination:{to}", pause=MINUTE, code="http_503")
    delivery_id = given_due_delivery(database, to=to)
    started = await store.start(1, 10, MINUTE)
    assert (started.lease, started.parked) == (None, 1)
    return delivery_id


async def test_empty_database_has_nothing_open(store: Store) -> None:
    assert await store.open_channels() == ()
    assert (await store.status()).parked_by == ()


async def test_channel_is_open_with_work_parked_behind_a_breaker(database: Database, store: Store) -> None:
    await given_parked(database, store)
    given_due_delivery(database, to="mailto:ada@example.com")
    await settle_with(store, await given_lease(store), Delivered())

    let_pass(database, 20 * MINUTE)

    assert (await store.readings(HOUR)).oldest_due_at is None
    [row] = await store.open_channels()
    assert (row.scheme, row.breakers) == ("https", 1)
    assert 20 * MINUTE <= await age_of(database, store, "https") < 21 * MINUTE
    assert row.breaker_since is not None
    assert 20 * MINUTE <= database.now() - row.breaker_since < 21 * MINUTE
    assert (await store.status()).parked_by == (("breaker", 1),)
    assert (await store.readings(HOUR)).channels == (row,)


async def test_retry_is_on_its_way_since_its_first_attempt(database: Database, store: Store) -> None:
    given_due_delivery(database)
    await settle_with(store, await given_lease(store), Failed("no"), SLOW)
    let_pass(database, 61 * MINUTE)
    await settle_with(store, await given_lease(store), Failed("no"), SLOW)
    let_pass(database, MINUTE)
    retrying = await age_of(database, store, "null")
    let_pass(database, HOUR)

    being_sent = await given_lease(store)

    assert len(being_sent.claims) == 1
    assert 62 * MINUTE <= retrying < 63 * MINUTE
    assert 122 * MINUTE <= await age_of(database, store, "null") < 123 * MINUTE


async def test_scheduled_delivery_is_not_old_when_its_time_comes(database: Database, store: Store) -> None:
    given_due_delivery(database, to=HOOK, deliver_at=later(database, timedelta(days=30)))
    assert await store.open_channels() == ()
    await store.trip(f"destination:{HOOK}", pause=MINUTE, code=None)
    let_pass(database, timedelta(days=30, minutes=1))
    assert await age_of(database, store, "https") < 2 * MINUTE

    await store.start(1, 10, MINUTE)

    assert await age_of(database, store, "https") < 2 * MINUTE


@pytest.mark.parametrize(("scope", "value"), [("channel", "https"), ("destination", HOOK), ("tenant", "acme")])
async def test_open_channels_leave_out_what_is_stopped(
    database: Database, store: Store, scope: str, value: str
) -> None:
    await store.stop(scope, value, operator="ada", reason=None)
    given_due_delivery(database, to=HOOK, tenant="acme")
    await store.start(1, 10, MINUTE)
    let_pass(database, HOUR)

    assert await store.open_channels() == ()
    assert (await store.status()).parked_by == (("stop", 1),)


async def test_open_channels_leave_out_what_is_paused(database: Database, store: Store) -> None:
    subscription_id = await store.add_subscription(
        tenant="", destination=HOOK, types=["memo.created"], policy=None, description=None, operator="ada"
    )
    await store.trip(f"destination:subscription:{subscription_id}", pause=MINUTE, code=None)
    database.publish("memo.created", {}, key="1", to=None)
    await store.start(1, 10, MINUTE)
    waiting = await of(store, "https")
    await store.set_subscription_state(subscription_id, "paused", operator="ada", reason="work")
    database.publish("memo.created", {}, key="2", to=None)
    await store.start(1, 10, MINUTE)

    assert (waiting.breakers, waiting.oldest_open_at is not None) == (1, True)
    assert (await store.status()).parked_by == (("breaker", 1), ("subscription", 1))
    assert (await store.status()).parked == 2


async def test_open_channels_are_none_where_all_is_paused(database: Database, store: Store) -> None:
    subscription_id = await store.add_subscription(
        tenant="", destination=HOOK, types=["memo.created"], policy=None, description=None, operator="ada"
    )
    await store.set_subscription_state(subscription_id, "paused", operator="ada", reason="work")
    database.publish("memo.created", {}, key="1", to=None)
    await store.start(1, 10, MINUTE)
    let_pass(database, HOUR)

    assert (await store.status()).parked_by == (("subscription", 1),)
    assert await store.open_channels() == ()


async def test_breaker_that_lets_something_out_is_not_open(database: Database, store: Store) -> None:
    await given_parked(database, store)

    database.advance(MINUTE)
    probe = await store.let_out(f"destination:{HOOK}", 1, MINUTE)
    await store.learn(f"destination:{HOOK}", probe.turn, Answers(through=1), Pauses(first=MINUTE, longest=HOUR))

    assert (await of(store, "https")).breakers == 0


@pytest.mark.parametrize("room", ["destination:subscription:none", "destination:subscription:99999999999999999999"])
async def test_breaker_of_an_odd_name_harms_nothing(store: Store, room: str) -> None:
    await store.trip(room, pause=MINUTE, code=None)

    assert [row.breakers for row in await store.open_channels()] == [1]


async def test_open_channels_name_what_no_worker_serves(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database, to="sms:1")
    database.execute(
        "update sendonce_deliveries set next_attempt_at = null, parked_on = ? where id = ?", "channel:sms", delivery_id
    )
    let_pass(database, 20 * MINUTE)

    assert (await store.status()).parked_by == (("channel", 1),)
    assert 20 * MINUTE <= await age_of(database, store, "sms") < 21 * MINUTE
