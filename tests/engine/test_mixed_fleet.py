"""Workers that serve different channels: each sends its own, nothing is spent on the others', and nothing is stuck."""

from collections import Counter
from datetime import timedelta

import pytest

from sendonce.channels.registry import Channels
from sendonce.domain.attempts import Lease
from sendonce.domain.outcomes import Delivered, Failed, Fault
from sendonce.domain.serving import Served
from sendonce.engine import parking
from sendonce.engine.memory import Memory
from sendonce.observability.facts import CommitsLost, NotServed
from sendonce.store.ports import Store
from sendonce.store.records import Room
from tests.domain.values import a_claim
from tests.engine.rig import Told, given_many, serving, working
from tests.given import given_due_delivery, later
from tests.processes import until_async
from tests.store.databases import Database

JOBS = "https://runner.example/jobs/"
TO_LIVE = timedelta(seconds=30)


def completed(database: Database) -> int:
    return int(database.one("select count(*) from sendonce_deliveries where status = 'Completed'"))


def attempts(database: Database) -> Counter[str]:
    return Counter(row["outcome"] for row in database.rows("attempts"))


def room_of(database: Database, delivery_id: int) -> str | None:
    room: str | None = database.one("select parked_on from sendonce_deliveries where id = ?", delivery_id)
    return room


def with_profile(plain: Told, profile: Told) -> Channels:
    channels = serving(plain, "https")
    channels.add(profile, JOBS)
    return channels


async def test_worker_without_the_channel_expires_nothing_and_spends_nothing(database: Database, store: Store) -> None:
    sms, mail = Told(Delivered("n")), Told(Delivered("n"))
    other = await database.open()
    async with working(store, serving(sms, "sms")), working(other, serving(mail, "mail")):
        expires_at = later(database, TO_LIVE)
        for number in range(60):
            given_due_delivery(database, to=f"{'sms' if number % 2 else 'mail'}:{number}", expires_at=expires_at)
        await until_async(lambda: completed(database) == 60, "everything to be sent")

    assert attempts(database) == {"Delivered": 60}
    assert {message.address.partition(":")[0] for message in sms.sent} == {"sms"}
    assert {message.address.partition(":")[0] for message in mail.sent} == {"mail"}


async def test_backlog_of_one_channel_does_not_hold_up_another(database: Database, store: Store) -> None:
    given_many(database, 300, to="fax:1")
    mail = Told(Delivered("n"))
    async with working(store, serving(mail, "mail")):
        given_due_delivery(database, to="mail:1")
        await until_async(lambda: completed(database) == 1, "what is behind the backlog")

    assert attempts(database) == {"Delivered": 1}


async def test_worker_that_begins_to_serve_a_channel_finds_what_waits(database: Database, store: Store) -> None:
    given_many(database, 30, to="fax:1")
    async with working(store, serving(Told(Delivered("n")), "mail")):
        parked = "select count(*) from sendonce_deliveries where parked_on = 'channel:fax'"
        await until_async(lambda: database.one(parked) == 30, "all of it in its room")
        fax = Told(Delivered("n"))
        async with working(await database.open(), serving(fax, "fax")):
            await until_async(lambda: completed(database) == 30, "everything to be sent")

    assert attempts(database) == {"Delivered": 30}


async def test_worker_until_idle_ends_although_others_work_waits(database: Database, store: Store) -> None:
    given_many(database, 5, to="fax:1")
    given_due_delivery(database, to="mail:1")
    async with working(store, serving(Told(Delivered("n")), "mail"), until_idle=True) as working_one:
        assert (await working_one.ended()).finished == 1

    assert attempts(database) == {"Delivered": 1}


async def test_worker_without_a_profile_sends_nothing_below_its_beginning(database: Database, store: Store) -> None:
    plain, profile = Told(Delivered("n")), Told(Delivered("n"))
    first = await database.open()
    async with working(first, with_profile(plain, profile)):
        given_due_delivery(database, to=f"{JOBS}1")
        await until_async(lambda: completed(database) == 1, "the first job")

    async with working(store, serving(plain, "https")):  # the other one has left, and is to come again
        job = given_due_delivery(database, to=f"{JOBS}2")
        given_due_delivery(database, to="https://a.example/")
        await until_async(lambda: completed(database) == 2, "what is below no profile")
        await until_async(lambda: room_of(database, job) == f"channel:{JOBS}", "the second job in its room")
        async with working(await database.open(), with_profile(plain, profile)):
            await until_async(lambda: completed(database) == 3, "the second job")

    assert [message.address for message in profile.sent] == [f"{JOBS}1", f"{JOBS}2"]
    assert [message.address for message in plain.sent] == ["https://a.example/"]


async def test_delivery_that_nobody_serves_expires_and_says_so(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database, to="fax:1", expires_at=later(database, timedelta(hours=1)))
    patient = given_due_delivery(database, to="fax:2")
    async with working(store, serving(Told(Delivered("n")), "mail")) as working_one:
        await until_async(lambda: room_of(database, delivery_id) == "channel:fax", "its room")
        await until_async(lambda: room_of(database, patient) == "channel:fax", "its room")
        database.advance(timedelta(hours=1))
        await until_async(lambda: database.rows("dead_letters"), "a dead letter")

    [letter] = database.rows("dead_letters")
    assert (letter["delivery_id"], letter["reason"]) == (delivery_id, "expired")
    assert letter["error_message"] == "its deadline has passed, and no worker served fax:"
    assert working_one.said(NotServed) == [NotServed(channel="fax", expired=1)]
    assert room_of(database, patient) == "channel:fax"
    assert attempts(database) == {}


async def test_busy_worker_comes_to_the_end_of_a_long_room_and_to_every_room(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It claims many times between two looks at the rooms."""
    monkeypatch.setattr(parking, "STEP", 1)
    monkeypatch.setattr(parking, "LOOK_SECONDS", 0.1)
    given_many(database, 3, to="fax:1")
    soon = later(database, timedelta(hours=1))
    short = [given_due_delivery(database, to=to, expires_at=soon) for to in ("fax:2", "sms:2")]
    async with working(store, serving(Told(Delivered("n")), "mail"), poll=timedelta(seconds=0.01)):
        parked = "select count(*) from sendonce_deliveries where parked_on is not null"
        await until_async(lambda: database.one(parked) == 5, "all of it in its rooms")
        database.advance(timedelta(hours=1))
        await until_async(lambda: len(database.rows("dead_letters")) == 2, "two dead letters")

    assert sorted(letter["delivery_id"] for letter in database.rows("dead_letters")) == short


async def test_delivery_expired_unserved_is_put_in_doubt_where_commits_are_lost(
    database: Database, store: Store
) -> None:
    """Somebody may have served it in the time that is lost."""
    delivery_id = given_due_delivery(database, to="fax:1", expires_at=later(database, timedelta(hours=1)))
    database.execute("update sendonce_deliveries set next_attempt_at = null, parked_on = 'channel:fax'")
    database.advance(timedelta(hours=2))
    memory = Memory()
    memory.note(Lease(7, (a_claim(delivery_id=99),), database.now()))

    async with working(store, serving(Told(Delivered("n")), "mail"), memory=memory) as here:
        await until_async(lambda: here.said(CommitsLost), "the loss was noticed")
        await until_async(lambda: database.one("select marked_id from sendonce_losses") == delivery_id, "marked")

    assert database.one("select in_doubt from sendonce_deliveries")
    assert database.rows("dead_letters") == []


async def test_delivery_behind_a_breaker_of_an_unserved_channel_is_seen_as_unserved(
    database: Database, store: Store
) -> None:
    fax = Told(Failed("busy", fault=Fault.CHANNEL))
    async with working(await database.open(), serving(fax, "fax"), breaker_after=2, breaker_pause=timedelta(minutes=5)):
        given_many(database, 20, to="fax:1")
        behind = "select count(*) from sendonce_deliveries where parked_on = 'place:fax'"
        await until_async(lambda: database.one(behind) > 0, "something behind the breaker")

    async with working(store, serving(Told(Delivered("n")), "mail")):
        await until_async(lambda: database.one(behind) == 0, "all of it to be where it is seen")

    assert {room.name for room in (await store.status()).rooms} == {"channel:fax"}


async def test_parked_queues_are_tended_one_at_a_time_in_turn() -> None:
    tended = []

    class Tending:
        async def give_up_unserved(self, name: str, after: int, limit: int) -> tuple[int, int | None]:
            tended.append((name, after))
            return 0, after + limit if name == "b" else None

        async def park_unserved(self, room: str, served: object) -> int:
            tended.append((room, 0))
            return 0

    rooms = [Room(name=name, waiting=1) for name in ("channel:a", "channel:b", "rate:7")]
    each = parking.Unserved(Tending(), lambda _: None)  # type: ignore[arg-type]
    for _ in range(6):
        await each.tend(rooms, Served(["mail"]))

    assert tended == [("a", 0), ("b", 0), ("rate:7", 0), ("a", 0), ("b", parking.STEP), ("rate:7", 0)]
