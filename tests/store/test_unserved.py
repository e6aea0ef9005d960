"""A claim takes what its worker serves; the rest waits by its channel's name, spends nothing, and is found again."""

from datetime import timedelta

import pytest

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.limits import Limits
from sendonce.domain.outcomes import Delivered, Unknown
from sendonce.domain.serving import Served, open_name
from sendonce.store.ports import Store
from sendonce.store.records import ALIVE, LATELY
from tests.given import (
    HOLD,
    POLICY,
    WORKER,
    expire,
    given_due_deliveries,
    given_due_delivery,
    given_event,
    given_lease,
    later,
    settle_with,
)
from tests.store.databases import Database, SqliteDatabase
from tests.store.test_parked_queues import a_subscription, ids_of, rooms

S = timedelta(seconds=1)
JOBS = "https://runner.example/jobs/"
MAIL = Served(["mailto", "null"])
MESSAGE = "its deadline has passed, and no worker served sms:"


def limited(served: Served, *, each: int = 1000) -> Limits:
    return Limits(served=served, each=each)


async def parked_on(store: Store, delivery_id: int) -> str | None:
    row = await store.delivery(delivery_id)
    assert row is not None
    return row.parked_on


def not_seen_for(database: Database, by: timedelta) -> None:
    """The workers that are there were seen last so long ago."""
    span = by // timedelta(microseconds=1) if isinstance(database, SqliteDatabase) else by
    database.execute("update sendonce_workers set seen_at = seen_at - ?", span)


class TestClaiming:
    async def test_claim_takes_only_what_the_worker_serves(self, database: Database, store: Store) -> None:
        sms = given_due_deliveries(database, 3, to="sms:+491")
        mail = given_due_deliveries(database, 2, to="mailto:ada@example.com")

        started = await store.start(WORKER, 10, HOLD, limited(MAIL))

        assert ids_of(started) == mail
        assert started.parked == 3
        assert await rooms(store) == {"channel:sms": 3}
        row = await store.delivery(sms[0])
        assert row is not None
        assert (row.attempt_count, row.status) == (0, DeliveryState.PENDING)
        assert database.one("select count(*) from sendonce_attempts where delivery_id = ?", sms[0]) == 0

    async def test_worker_that_serves_nothing_gets_nothing(self, database: Database, store: Store) -> None:
        given_due_delivery(database, to="sms:+491")
        in_doubt = given_due_delivery(database, to="mailto:ada@example.com")
        database.execute("update sendonce_deliveries set in_doubt = ? where id = ?", True, in_doubt)

        asked = await store.start_doubtful(WORKER, 10, HOLD, after=0, served=Served([]))
        started = await store.start(WORKER, 10, HOLD, limited(Served([])))
        waiting = await store.start_waiting(
            WORKER, {"channel:sms": 10, "channel:mailto": 10}, HOLD, limited(Served([]))
        )

        assert (asked.lease, started.lease, waiting.lease) == (None, None, None)
        assert await rooms(store) == {"channel:mailto": 1, "channel:sms": 1}

    async def test_worker_finds_what_it_serves(self, database: Database, store: Store) -> None:
        sms = given_due_deliveries(database, 3, to="sms:+491")
        await store.start(WORKER, 10, HOLD, limited(MAIL))

        started = await store.start_waiting(2, {"channel:sms": 10}, HOLD, limited(Served(["sms"])))

        assert ids_of(started) == sms

    async def test_worker_gets_nothing_parked_that_it_does_not_serve(self, database: Database, store: Store) -> None:
        given_due_deliveries(database, 2, to="sms:+491")
        await store.start(WORKER, 10, HOLD, limited(MAIL))

        started = await store.start_waiting(WORKER, {"channel:sms": 10}, HOLD, limited(MAIL))

        assert started.lease is None
        assert await rooms(store) == {"channel:sms": 2}

    async def test_address_below_a_profile_of_others_is_theirs(self, database: Database, store: Store) -> None:
        job, other = given_due_delivery(database, to=f"{JOBS}7"), given_due_delivery(database, to="https://a.example/")
        served = Served(["https"], {JOBS: False, "https": True})

        started = await store.start(WORKER, 10, HOLD, limited(served))

        assert ids_of(started) == [other]
        assert await parked_on(store, job) == f"channel:{JOBS}"
        theirs = await store.start_waiting(2, {f"channel:{JOBS}": 5}, HOLD, limited(Served(["https", JOBS])))
        assert ids_of(theirs) == [job]

    async def test_subscription_is_served_by_its_own_address(self, database: Database, store: Store) -> None:
        subscription_id = await a_subscription(store, f"{JOBS}7")
        given_event(database)

        started = await store.start(WORKER, 10, HOLD, limited(Served(["https"], {open_name(JOBS): True})))

        assert (started.lease, started.parked) == (None, 1)
        assert await rooms(store) == {f"channel:{open_name(JOBS)}": 1}
        theirs = await store.start_waiting(
            2, {f"channel:{open_name(JOBS)}": 5}, HOLD, limited(Served([open_name(JOBS)]))
        )
        assert theirs.lease is not None
        assert theirs.lease.claims[0].subscription_id == subscription_id

    async def test_profile_that_is_not_open_to_subscriptions_neither_serves_nor_keeps_them(
        self, database: Database, store: Store
    ) -> None:
        await a_subscription(store, f"{JOBS}7")
        given_event(database)

        assert (await store.start(WORKER, 10, HOLD, limited(Served([JOBS])))).lease is None
        assert await rooms(store) == {"channel:https": 1}
        others = await store.start_waiting(2, {"channel:https": 5}, HOLD, limited(Served(["https"], {JOBS: True})))
        assert others.lease is not None

    @pytest.mark.parametrize("state", ["paused", "disabled"])
    async def test_subscription_that_is_not_active_goes_before(
        self, database: Database, store: Store, state: str
    ) -> None:
        subscription_id = await a_subscription(store, "sms:+491")
        given_event(database)
        await store.set_subscription_state(subscription_id, state, operator="ada", reason=None)

        await store.start(WORKER, 10, HOLD, limited(MAIL))

        assert await rooms(store) == {}
        assert database.one("select parked_on from sendonce_deliveries") == f"subscription:{subscription_id}"

    async def test_stop_goes_before(self, database: Database, store: Store) -> None:
        given_due_delivery(database, to="sms:+491")
        await store.stop("channel", "sms", operator="ada", reason=None)

        await store.start(WORKER, 10, HOLD, limited(MAIL))

        assert database.one("select parked_on from sendonce_deliveries") == "stop:channel:sms"

    async def test_channel_goes_before_a_rate_and_a_breaker(self, database: Database, store: Store) -> None:
        given_due_delivery(database, to="sms:+492")
        subscription_id = await a_subscription(store, "sms:+491", rate=1)
        given_event(database)
        await store.trip("place:sms", pause=S, code=None)

        await store.start(WORKER, 10, HOLD, limited(MAIL))
        assert await rooms(store) == {"channel:sms": 2}

        out = await store.start_waiting(2, {"channel:sms": 5}, HOLD, limited(Served(["sms"])))
        assert out.lease is None
        assert await rooms(store) == {"place:sms": 2}, f"a breaker and the rate of {subscription_id}"

    async def test_limits_hold_for_what_comes_out_of_a_channels_room(self, database: Database, store: Store) -> None:
        ids = given_due_deliveries(database, 3, to="https://slow.example/")
        await store.start(WORKER, 10, HOLD, limited(MAIL))

        out = await store.start_waiting(2, {"channel:https": 5}, HOLD, limited(Served(["https"]), each=1))

        assert ids_of(out) == ids[:1]
        assert await rooms(store) == {"destination:https://slow.example/": 2}

    async def test_proven_delivery_is_not_sent_and_needs_no_channel(self, database: Database, store: Store) -> None:
        delivery_id = given_due_delivery(database, to="sms:+491")
        database.execute("update sendonce_deliveries set proven_at = created_at")

        started = await store.start(WORKER, 10, HOLD, limited(MAIL))

        assert ids_of(started) == [delivery_id]


class TestSparing:
    """What a live worker serves is left to it for a moment: it need not go through a room."""

    SERVED = Served(["mailto"], {"sms": True}, spare=3600.0)

    async def test_unserved_delivery_that_just_became_due_stays_where_it_is(
        self, database: Database, store: Store
    ) -> None:
        given_due_delivery(database, to="sms:+491")

        started = await store.start(WORKER, 10, HOLD, limited(self.SERVED))

        assert (started.lease, started.parked) == (None, 0)
        assert await rooms(store) == {}

    async def test_unserved_delivery_due_for_longer_is_parked(self, database: Database, store: Store) -> None:
        given_due_delivery(database, to="sms:+491")
        database.advance(timedelta(hours=2))

        assert (await store.start(WORKER, 10, HOLD, limited(self.SERVED))).parked == 1

    async def test_unserved_delivery_is_parked_at_once(self, database: Database, store: Store) -> None:
        given_due_delivery(database, to="sms:+491")
        dead = Served(["mailto"], {"sms": False}, spare=3600.0)

        assert (await store.start(WORKER, 10, HOLD, limited(dead))).parked == 1

    async def test_unserved_deliveries_in_the_way_are_parked_at_once(self, database: Database, store: Store) -> None:
        given_due_deliveries(database, 6, to="sms:+491")

        assert (await store.start(WORKER, 10, HOLD, limited(self.SERVED))).parked == 6


class TestRoomsOfOthers:
    async def test_parked_delivery_stays_parked_while_a_live_worker_serves_it(
        self, database: Database, store: Store
    ) -> None:
        given_due_deliveries(database, 2, to="sms:+491")
        await store.start(WORKER, 10, HOLD, Limits(each_place=1))
        served = Served(["mailto"], {"sms": True})

        out = await store.start_waiting(WORKER, {"place:sms": 5}, HOLD, limited(served))

        assert (out.lease, out.parked) == (None, 0)
        assert await rooms(store) == {"place:sms": 1}

    async def test_parked_delivery_that_is_unserved_is_parked_on_its_channel(
        self, database: Database, store: Store
    ) -> None:
        given_due_deliveries(database, 3, to="sms:+491")
        await store.start(WORKER, 10, HOLD, Limits(each_place=1))
        await store.trip("place:sms", pause=S, code=None)

        assert await store.park_unserved("place:sms", Served(["mailto"], {"sms": False})) == 2

        assert await rooms(store) == {"channel:sms": 2}

    async def test_channels_room_is_left_for_that_of_a_profile_that_others_have_come_to_serve(
        self, database: Database, store: Store
    ) -> None:
        given_due_delivery(database, to=f"{JOBS}7")
        await store.start(WORKER, 10, HOLD, limited(MAIL))
        assert await rooms(store) == {"channel:https": 1}
        served = Served(["https"], {JOBS: True})

        out = await store.start_waiting(WORKER, {"channel:https": 5}, HOLD, limited(served))

        assert (out.lease, out.parked) == (None, 1)
        assert await rooms(store) == {f"channel:{JOBS}": 1}

    async def test_rooms_of_subscriptions_say_where_they_lead_to(self, database: Database, store: Store) -> None:
        given_due_deliveries(database, 3, to="sms:+491")
        subscription_id = await a_subscription(store, "https://a.example/", rate=0.001)
        given_event(database)
        await store.start(WORKER, 10, HOLD, Limits(each_place=1))

        found = {room.name: room.address for room in await store.rooms(after="", limit=10)}

        assert found == {"place:sms": None, f"rate:{subscription_id}": "https://a.example/"}


class TestExpiry:
    async def given_unserved(self, database: Database, store: Store, **arguments: object) -> int:
        delivery_id = given_due_delivery(database, to="sms:+491", **arguments)
        await store.start(WORKER, 10, HOLD, limited(MAIL))
        return delivery_id

    async def test_unserved_delivery_that_expired_is_given_up_and_says_why(
        self, database: Database, store: Store
    ) -> None:
        delivery_id = await self.given_unserved(database, store, expires_at=later(database, timedelta(hours=1)))
        assert await store.give_up_unserved("channel:sms", 0, 10, message=MESSAGE) == (0, None)
        database.advance(timedelta(hours=1))

        assert await store.give_up_unserved("channel:sms", 0, 10, message=MESSAGE) == (1, None)

        row, letter = await store.delivery(delivery_id), await store.dead_letter_of(delivery_id)
        assert row is not None
        assert letter is not None
        assert (row.status, row.attempt_count, row.final_error_code) == (DeliveryState.DEAD_LETTERED, 0, "not_served")
        assert (letter.reason, letter.error_code, letter.error_message) == ("expired", "not_served", MESSAGE)
        assert database.one("select count(*) from sendonce_attempts") == 0
        assert database.one("select sum(amount) from sendonce_counters where name = 'dead_lettered'") == 1

    async def test_unserved_delivery_without_a_deadline_waits(self, database: Database, store: Store) -> None:
        await self.given_unserved(database, store)
        database.advance(timedelta(days=365))

        assert await store.give_up_unserved("channel:sms", 0, 10, message=MESSAGE) == (0, None)
        assert await rooms(store) == {"channel:sms": 1}

    async def test_unserved_delivery_in_doubt_is_asked_about_before_it_is_given_up(
        self, database: Database, store: Store
    ) -> None:
        given_due_delivery(database, to="sms:+491", expires_at=later(database, timedelta(hours=1)))
        started = await store.start(WORKER, 10, HOLD)
        assert started.lease is not None
        await settle_with(store, started.lease, Unknown("timeout"))
        database.advance(POLICY.doubt_wait * 2)
        await store.start(WORKER, 10, HOLD, limited(MAIL))
        database.advance(timedelta(hours=2))

        assert await store.give_up_unserved("channel:sms", 0, 10, message=MESSAGE) == (0, None)
        assert await rooms(store) == {"channel:sms": 1}

    async def test_step_looks_at_no_more_than_it_may(self, database: Database, store: Store) -> None:
        soon = later(database, timedelta(hours=1))
        ids = given_due_deliveries(database, 5, to="sms:+491", expires_at=soon)
        await store.start(WORKER, 10, HOLD, limited(MAIL))
        database.advance(timedelta(hours=1))

        assert await store.give_up_unserved("channel:sms", 0, 2, message=MESSAGE) == (2, ids[1])
        assert await store.give_up_unserved("channel:sms", ids[1], 2, message=MESSAGE) == (2, ids[3])
        assert await store.give_up_unserved("channel:sms", ids[3], 2, message=MESSAGE) == (1, None)

    async def test_unserved_delivery_is_due_again_when_it_needs_another_channel(
        self, database: Database, store: Store
    ) -> None:
        proven = given_due_delivery(database, to="sms:+492", expires_at=later(database, timedelta(hours=1)))
        subscription_id = await a_subscription(store, "sms:+491")
        given_event(database)
        await store.start(WORKER, 10, HOLD, limited(MAIL))
        database.execute(
            "update sendonce_subscriptions set destination = 'mailto:a@example.com' where id = ?", subscription_id
        )
        database.execute("update sendonce_deliveries set proven_at = created_at where id = ?", proven)
        database.advance(timedelta(hours=1))

        assert await store.give_up_unserved("channel:sms", 0, 10, message=MESSAGE) == (0, None)

        assert len(ids_of(await store.start(WORKER, 10, HOLD, limited(MAIL)))) == 2

    async def test_unserved_delivery_of_a_subscription_is_given_up_when_it_expires(
        self, database: Database, store: Store
    ) -> None:
        await a_subscription(store, "sms:+491")
        given_event(database)
        soon = given_event(database, expires_at=later(database, timedelta(hours=1)))
        await store.start(WORKER, 10, HOLD, limited(MAIL))
        database.advance(timedelta(hours=1))

        assert await store.give_up_unserved("channel:sms", 0, 10, message=MESSAGE) == (1, None)

        [letter] = database.rows("dead_letters")
        assert database.one("select event_id from sendonce_deliveries where id = ?", letter["delivery_id"]) == soon
        assert await rooms(store) == {"channel:sms": 1}


class TestWorkers:
    async def test_worker_learns_what_the_others_serve(self, store: Store) -> None:
        one = await store.register("a", "1", 10, serves=["mailto", "null"])
        await store.register("b", "1", 10, serves=["null", JOBS])

        assert await store.served(one) == {"null": True, JOBS: True}

    async def test_worker_that_has_left_is_not_alive_and_counts_for_a_while(
        self, database: Database, store: Store
    ) -> None:
        gone = await store.register("b", "1", 10, serves=["sms", JOBS])
        await store.leave(gone)
        assert await store.served(0) == {"sms": False, JOBS: False}

        not_seen_for(database, LATELY + S)
        assert await store.served(0) == {}

    async def test_worker_that_is_silent_is_not_alive(self, database: Database, store: Store) -> None:
        await store.register("b", "1", 10, serves=["sms"])
        not_seen_for(database, ALIVE + S)

        assert await store.served(0) == {"sms": False}

    async def test_worker_of_the_version_before_says_nothing_of_channels(
        self, database: Database, store: Store
    ) -> None:
        await store.register("b", "1", 10, serves=["sms"])
        database.execute("update sendonce_workers set serves = null")

        assert await store.served(0) == {}

    async def test_names_that_are_none_are_passed_over(self, database: Database, store: Store) -> None:
        await store.register("b", "1", 10, serves=["sms"])
        database.execute("""update sendonce_workers set serves = '["Sms", 7, "http://no-slash", "fax", ""]'""")

        assert await store.served(0) == {"fax": True}

    async def test_glance_says_which_rooms_nobody_serves(self, database: Database, store: Store) -> None:
        given_due_delivery(database, to="sms:+491")
        given_due_delivery(database, to="fax:1")
        await store.start(WORKER, 10, HOLD, limited(MAIL))
        await store.register("b", "1", 10, serves=["sms"])

        assert {room.name: room.is_served for room in (await store.status()).rooms} == {
            "channel:sms": True,
            "channel:fax": False,
        }


async def test_look_up_is_made_only_for_what_is_served(database: Database, store: Store) -> None:
    ids = [given_due_delivery(database, to=to) for to in ("sms:+491", "mailto:a@example.com", "sms:+492")]
    started = await store.start(WORKER, 10, HOLD)
    assert started.lease is not None
    await settle_with(store, started.lease, Unknown("timeout"))
    database.advance(POLICY.doubt_wait * 2)
    await store.start(WORKER, 10, HOLD, limited(MAIL))  # sms: is parked in its channel's room

    mail = await store.start_doubtful(WORKER, 1, HOLD, after=0, served=Served(["https"], {}))
    sms = await store.start_doubtful(WORKER, 1, HOLD, after=0, served=Served(["sms"]))

    assert mail.lease is None
    assert ids_of(sms) == ids[:1]


async def test_proven_delivery_is_taken_by_any_worker_that_asks(database: Database, store: Store) -> None:
    """Nobody is asked about it, and nothing is sent."""
    delivery_id = given_due_delivery(database, to="sms:+491")
    lease = await given_lease(store, hold=S)
    database.advance(2 * S)
    await expire(store)
    await settle_with(store, lease, Delivered("n-1"))

    asked = await store.start_doubtful(WORKER, 1, HOLD, after=0, served=MAIL)

    assert ids_of(asked) == [delivery_id]


async def test_subscription_is_asked_about_by_who_serves_its_address(database: Database, store: Store) -> None:
    await a_subscription(store, "sms:+491")
    event_id = database.publish("memo.created", {}, key="1", to=None)
    of_subscription = database.one("select id from sendonce_deliveries where event_id = ?", event_id)
    started = await store.start(WORKER, 10, HOLD)
    assert started.lease is not None
    await settle_with(store, started.lease, Unknown("timeout"))
    database.advance(POLICY.doubt_wait * 2)

    mail = await store.start_doubtful(WORKER, 1, HOLD, after=0, served=MAIL)
    sms = await store.start_doubtful(WORKER, 1, HOLD, after=0, served=Served(["sms"]))

    assert mail.lease is None
    assert ids_of(sms) == [of_subscription]


async def test_readings_say_what_is_unserved_and_since_when(database: Database, store: Store) -> None:
    given_due_delivery(database, to="sms:+491")
    given_due_deliveries(database, 2, to="fax:1")
    await store.start(WORKER, 10, HOLD, limited(MAIL))
    await store.register("b", "1", 10, serves=["sms"])

    [row] = (await store.readings(timedelta(hours=1))).unserved

    assert (row.name, row.waiting) == ("fax", 2)
    assert abs(row.since - database.now()) < timedelta(minutes=1)
