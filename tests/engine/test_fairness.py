"""One slow or dead destination does not hold up the others: limits that are earned, breakers and rates."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from sendonce.channels.protocol import Message
from sendonce.domain.breakers import Answers, LetOut, Pauses
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Fault, Outcome, Refused, Unknown
from sendonce.domain.serving import Served
from sendonce.engine import parking
from sendonce.engine.breakers import COUNTED, Breakers
from sendonce.engine.fairness import REMEMBERED, Fairness, Quotas
from sendonce.errors import StoreBusy
from sendonce.observability.facts import Tripped
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.store.ports import RoomStore, Store
from sendonce.store.records import Room
from tests.domain.values import a_claim
from tests.engine.faults import faulty
from tests.engine.rig import Told, after, never, once, serving, working
from tests.processes import until_async
from tests.store.databases import Database

ROOM = "destination:test://dead.example/hook"
DEAD, WELL = "test://dead.example/hook", "test://well.example/hook"
MS = timedelta(milliseconds=1)


class ByHost(Told):
    """Another script for each destination."""

    def __init__(self, **scripts: object) -> None:
        super().__init__()
        self.scripts = {host: [step] for host, step in scripts.items()}
        self.at: dict[str, int] = dict.fromkeys(scripts, 0)
        self.most_at: dict[str, int] = dict.fromkeys(scripts, 0)

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        host = message.address.partition("//")[2].partition(".")[0]
        self.at[host] += 1
        self.most_at[host] = max(self.most_at[host], self.at[host])
        self.script = self.scripts[host]
        try:
            return await super().send(message, timeout=timeout)
        finally:
            self.at[host] -= 1

    def sent_to(self, destination: str) -> int:
        return sum(message.address == destination for message in self.sent)


def publish(database: Database, amount: int, to: str, *, first: int = 0) -> None:
    with database.connection() as connection:
        drafts = [Draft("memo.created", {}, key=f"{to}-{first + number}", to=to) for number in range(amount)]
        Outbox().publish_many(connection, drafts)


def completed(database: Database, destination: str) -> int:
    sql = "select count(*) from sendonce_deliveries where destination = ? and status = 'Completed'"
    return int(database.one(sql, destination))


class TestLanes:
    def test_quota_begins_with_a_few_and_earns_more_by_quick_answers(self) -> None:
        quotas = Quotas(first=2, most=4)
        assert quotas.left("a") == 2
        for _ in range(5):
            quotas.begin("a")
            quotas.end("a", Delivered(), 0.01)

        assert quotas.left("a") == 4

    def test_quota_is_not_raised_by_slow_answers(self) -> None:
        quotas = Quotas(first=2, most=4)
        quotas.begin("a")
        quotas.end("a", Delivered(), 5.0)

        assert quotas.left("a") == 2

    @pytest.mark.parametrize("outcome", [Failed("503"), Unknown("timeout")])
    def test_failures_cost_what_was_earned(self, outcome: Outcome) -> None:
        quotas = Quotas(first=2, most=10)
        for _ in range(20):
            quotas.begin("a")
            quotas.end("a", Delivered(), 0.01)
        assert quotas.left("a") == 10
        quotas.begin("a")
        quotas.end("a", outcome, 0.01)

        assert quotas.left("a") == 5

    def test_failures_never_cost_what_a_lane_begins_with(self) -> None:
        quotas = Quotas(first=4, most=10)
        for _ in range(4):
            quotas.begin("a")
        for _ in range(3):
            quotas.end("a", Failed("503"), 0.01)

        assert (quotas.in_flight("a"), quotas.left("a")) == (1, 3)

    def test_quota_counts_what_is_in_flight(self) -> None:
        quotas = Quotas(first=2, most=4)
        for _ in range(3):
            quotas.begin("a")

        assert (quotas.left("a"), quotas.in_flight("a"), quotas.all_left()) == (0, 3, {"a": 0})

    def test_quota_of_an_idle_destination_is_forgotten(self) -> None:
        quotas = Quotas(first=2, most=4)
        for number in range(5000):
            quotas.begin(str(number))
            quotas.end(str(number), Delivered(), 0.01)

        assert list(quotas.all_left()) == [str(number) for number in range(5000 - REMEMBERED, 5000)]

    def test_quota_that_has_earned_nothing_leaves_nothing_behind(self) -> None:
        quotas = Quotas(first=2, most=4)
        for outcome in (Failed("503"), Refused("422")):
            quotas.begin("a")
            quotas.end("a", outcome, 0.01)

        assert quotas.all_left() == {}

    def test_quota_of_what_is_in_flight_is_never_forgotten(self) -> None:
        quotas = Quotas(first=2, most=4)
        quotas.begin("busy")
        for number in range(500):
            quotas.begin(str(number))
            quotas.end(str(number), Delivered(), 0.01)

        assert quotas.in_flight("busy") == 1
        quotas.end("busy", Delivered(), 0.01)

    def test_null_and_hosts(self) -> None:
        fairness = Fairness(100)
        fairness.begin([a_claim(destination="null:a", address="null:a")])
        fairness.begin([a_claim(destination="mailto:a@b.c", address="mailto:a@b.c")])
        fairness.begin([a_claim(destination="subscription:1", address="https://h.example:1/x")])

        limits = fairness.limits()

        assert limits.left_at_place == {"mailto": 49, "h.example:1": 49}
        assert limits.left == {"subscription:1": 9}
        assert (limits.each, limits.each_place) == (10, 50)


class Written:
    """What breakers write."""

    def __init__(self) -> None:
        self.tripped: list[str] = []
        self.learnt: list[tuple[str, int, Answers]] = []
        self.is_away = False

    async def trip(self, room: str, *, pause: timedelta, code: str | None) -> bool:
        self._answer()
        self.tripped.append(room)
        return True

    async def learn(self, room: str, turn: int, answers: Answers, pauses: Pauses) -> bool:
        self._answer()
        self.learnt.append((room, turn, answers))
        return False

    def _answer(self) -> None:
        if self.is_away:
            raise StoreBusy("away")


class TestBreakers:
    def breakers(self, written: Written) -> Breakers:
        store: RoomStore = written  # type: ignore[assignment]
        return Breakers(store, after=3, pauses=Pauses(first=10 * MS, longest=80 * MS), emit=lambda _: None)

    @pytest.mark.parametrize("outcome", [Failed("http_503"), Unknown("timeout"), Deferred("http_429")])
    async def test_failures_in_a_row_trip(self, outcome: Outcome) -> None:
        written = Written()
        breakers = self.breakers(written)
        claim = a_claim(destination=DEAD, address=DEAD)
        for _ in range(2):
            breakers.note(claim, outcome, 0.01)
        assert not await breakers.apply()
        breakers.note(claim, outcome, 0.01)

        assert await breakers.apply()
        assert written.tripped == [f"destination:{DEAD}"]

    @pytest.mark.parametrize("outcome", [Delivered(), Refused("422")])
    async def test_answer_in_between_begins_the_count_again(self, outcome: Outcome) -> None:
        written = Written()
        breakers = self.breakers(written)
        claim = a_claim(destination=DEAD, address=DEAD)
        for step in (Failed("503"), Failed("503"), outcome, Failed("503"), Failed("503")):
            breakers.note(claim, step, 0.01)
        await breakers.apply()

        assert written.tripped == []

    @pytest.mark.parametrize("others", [0, 1])
    async def test_answer_after_enough_failures_trips_nothing_where_nothing_is_written_yet(self, others: int) -> None:
        """Whether anything else fails or not."""
        written = Written()
        breakers = self.breakers(written)
        claim = a_claim(destination=DEAD, address=DEAD)
        for number in range(others):
            breakers.note(a_claim(destination=f"{DEAD}/{number}", address=f"{DEAD}/{number}"), Failed("503"), 0.01)
        for outcome in (Failed("503"), Failed("503"), Failed("503"), Delivered()):
            breakers.note(claim, outcome, 0.01)

        await breakers.apply()

        assert written.tripped == []

    @pytest.mark.parametrize(
        "outcome", [Deferred("no_channel", fault=Fault.OURS), Unknown("stopped", fault=Fault.OURS)]
    )
    async def test_breaker_ignores_what_is_not_the_receivers_fault(self, outcome: Outcome) -> None:
        written = Written()
        breakers = self.breakers(written)
        for _ in range(9):
            breakers.note(a_claim(destination=DEAD, address=DEAD), outcome, 0.01)
        await breakers.apply()

        assert written.tripped == []

    async def test_breaker_of_a_channel_ignores_one_recipients_failures(self) -> None:
        written = Written()
        breakers = self.breakers(written)
        for number in range(9):
            address = f"mailto:{number}@b.c"
            breakers.note(
                a_claim(destination=address, address=address), Failed("smtp_450", fault=Fault.RECIPIENT), 0.01
            )
            breakers.note(a_claim(destination=address, address=address), Failed("smtp_451"), 0.01)
        await breakers.apply()

        assert written.tripped == []

    async def test_channels_own_failures_stop_it(self) -> None:
        written = Written()
        breakers = self.breakers(written)
        for number in range(9):
            address = f"mailto:{number}@b.c"
            breakers.note(a_claim(destination=address, address=address), Failed("smtp_421", fault=Fault.CHANNEL), 0.01)
        await breakers.apply()

        assert written.tripped == ["place:mailto"]

    async def test_failures_are_not_counted_for_ever(self) -> None:
        breakers = self.breakers(Written())
        for number in range(COUNTED + 500):
            address = f"test://h{number}.example/"
            breakers.note(a_claim(destination=address, address=address), Failed("503"), 0.01)

        assert len(breakers._failures) == COUNTED

    async def test_breaker_is_told_what_became_of_those_it_let_out_and_of_no_others(self) -> None:
        written = Written()
        breakers = self.breakers(written)
        claims = [a_claim(delivery_id=id, destination=DEAD, address=DEAD) for id in range(5)]
        assert breakers.begin(claims[:4], {ROOM: LetOut(4, 7)}) == {ROOM: 4}
        assert breakers.is_waiting
        outcomes: list[Outcome] = [
            Failed("503"),
            Delivered(),
            Refused("422"),
            Deferred("no_channel", fault=Fault.OURS),
            Delivered(),
        ]
        for claim, outcome in zip(claims, outcomes, strict=True):
            breakers.note(claim, outcome, 0.01)
        await breakers.apply()

        assert written.learnt == [(ROOM, 7, Answers(through=2, failed=1, untold=1, code="503"))]
        assert not breakers.is_waiting

    async def test_breaker_of_a_channel_takes_a_recipients_answer_for_health(self) -> None:
        written = Written()
        breakers = self.breakers(written)
        claim = a_claim(destination="mailto:a@b.c", address="mailto:a@b.c")
        breakers.begin([claim], {"place:mailto": LetOut(1, 7, 0.5)})
        breakers.note(claim, Failed("smtp_450", fault=Fault.RECIPIENT), 0.01)
        await breakers.apply()

        assert written.learnt == [("place:mailto", 7, Answers(through=1))]

    async def test_breaker_ignores_what_was_completed_without_sending(self) -> None:
        written = Written()
        breakers = self.breakers(written)
        claim = a_claim(destination=DEAD, address=DEAD, is_proven=True)
        breakers.begin([claim], {ROOM: LetOut(1, 7, 0.5)})
        breakers.note(claim, Delivered(), 0.01)
        await breakers.apply()

        assert written.learnt == [(ROOM, 7, Answers(untold=1))]

    async def test_breaker_does_not_count_what_was_in_flight_when_it_opened(self) -> None:
        written = Written()
        breakers = self.breakers(written)
        breakers.see([ROOM])
        for _ in range(9):
            breakers.note(a_claim(destination=DEAD, address=DEAD), Failed("503"), 20.0)
        await breakers.apply()
        assert written.tripped == []
        for _ in range(9):
            breakers.note(a_claim(destination=DEAD, address=DEAD), Failed("503"), -1.0)
        await breakers.apply()

        assert written.tripped == [ROOM]

    async def test_breakers_beyond_the_bound_are_forgotten_oldest_first(self) -> None:
        written = Written()
        breakers = self.breakers(written)
        breakers.see([ROOM])
        breakers.see([f"destination:test://h{number}.example/" for number in range(COUNTED - 1)])
        breakers.see([ROOM])
        breakers.see(["destination:test://one-more.example/"])
        for to in (DEAD, "test://h0.example/"):
            for _ in range(3):
                breakers.note(a_claim(destination=to, address=to), Failed("503"), 20.0)
        await breakers.apply()

        assert written.tripped == ["destination:test://h0.example/"]

    async def test_breaker_results_that_cannot_be_written_are_written_later(self) -> None:
        written = Written()
        breakers = self.breakers(written)
        claims = [a_claim(delivery_id=id, destination=DEAD, address=DEAD) for id in range(2)]
        breakers.begin(claims, {ROOM: LetOut(2, 7)})
        for _ in range(3):
            breakers.note(a_claim(destination=WELL, address=WELL), Failed("503"), 0.01)
        breakers.note(claims[0], Failed("503"), 0.01)
        written.is_away = True
        for _ in range(2):
            with pytest.raises(StoreBusy):
                await breakers.apply()
        breakers.note(claims[1], Delivered(), 0.01)
        written.is_away = False

        assert await breakers.apply()
        assert written.tripped == [f"destination:{WELL}"]
        assert written.learnt == [(ROOM, 7, Answers(through=1, failed=1, code="503"))]


async def test_destination_that_never_answers_does_not_hold_up_the_others(database: Database, store: Store) -> None:
    publish(database, 300, DEAD)
    publish(database, 60, WELL)
    channel = ByHost(dead=never, well=Delivered())
    async with working(store, serving(channel), concurrency=20, grace=timedelta(0)) as at_work:
        await until_async(lambda: completed(database, WELL) == 60, "all for the one that is well")
        assert channel.most_at["dead"] <= 4
        assert at_work.worker is not None
    leased = "select count(*) from sendonce_attempts a join sendonce_deliveries d on d.id = a.delivery_id"
    # What was leased at the very end is handed back, and not sent.
    tried = int(database.one(f"{leased} where d.destination = ? and coalesce(a.error_code, '') <> 'handed_back'", DEAD))
    assert tried == channel.sent_to(DEAD), "what cannot be sent now is not leased"


async def test_failing_destination_is_left_alone_then_probed_and_let_out_step_by_step(
    database: Database, store: Store
) -> None:
    publish(database, 200, DEAD)
    channel = ByHost(dead=Failed("http_503"))
    hour = timedelta(hours=1)
    settings: dict[str, Any] = {"breaker_after": 5, "breaker_pause": hour, "breaker_longest": hour}
    async with working(store, serving(channel), concurrency=20, **settings) as at_work:
        await until_async(lambda: bool(at_work.said(Tripped)), "the breaker")
        await until_async(lambda: parked(database) == 200, "all of them to wait")
        tried = len(channel.sent)
        assert tried < 60
        untouched = "select count(*) from sendonce_deliveries where attempt_count = 0 and parked_on is not null"
        assert int(database.one(untouched)) >= 100, "no attempt is spent on what waits"
        database.advance(hour)
        await until_async(lambda: len(channel.sent) > tried, "a probe")
        await until_async(lambda: parked(database) == 200, "its failure")
        assert len(channel.sent) == tried + 1
        channel.scripts["dead"] = [Delivered()]
        database.advance(hour)
        await until_async(lambda: completed(database, DEAD) == 200, "everything to arrive")
    assert int(database.one("select count(*) from sendonce_dead_letters")) == 0
    assert int(database.one("select count(*) from sendonce_breakers")) <= 1


async def test_worker_is_not_idle_before_every_turn_has_come(database: Database, store: Store) -> None:
    publish(database, 150, WELL)
    publish(database, 20, DEAD)
    await store.trip(f"destination:{DEAD}", pause=timedelta(minutes=1), code=None)
    channel = ByHost(well=Delivered(), dead=Delivered())
    async with working(store, serving(channel), concurrency=20, until_idle=True) as at_work:
        await at_work.ended()

    assert completed(database, WELL) == 150
    assert (channel.sent_to(DEAD), parked(database)) == (0, 20), "what is behind an open breaker is for later"


async def test_rate_is_kept(database: Database, store: Store) -> None:
    begun = asyncio.get_running_loop().time()
    await store.add_subscription(
        tenant="", types=["*"], destination=WELL, policy=None, description=None, operator="ada", rate=20.0
    )
    with database.connection() as connection:
        Outbox().publish_many(connection, [Draft("memo.created", {}, key=f"m-{n}", to=None) for n in range(25)])
    channel = ByHost(well=Delivered())
    sent: list[float] = []
    channel.scripts["well"] = [lambda: noted(sent)]
    async with working(store, serving(channel), concurrency=20):
        await until_async(lambda: len(sent) == 25, "all of them")

    # One token to begin with, then twenty a second: the last of 25 cannot go before 1.2 s have passed.
    assert sent[-1] - begun >= 1.15


async def noted(sent: list[float]) -> Outcome:
    sent.append(asyncio.get_running_loop().time())
    return Delivered()


def parked(database: Database) -> int:
    return int(database.one("select count(*) from sendonce_deliveries where parked_on is not null"))


async def test_breaker_is_eased_by_a_probe_that_is_slow_and_the_last_of_its_room(
    sqlite: Database, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "LOOK_SECONDS", 0.02)
    publish(sqlite, 1, DEAD)
    await sqlite_store.trip(f"destination:{DEAD}", pause=MS, code=None)
    gate, looks = asyncio.Event(), list[int]()
    watched, store = faulty(sqlite_store)

    async def rooms(**arguments: Any) -> list[Room]:
        found = await sqlite_store.rooms(**arguments)
        looks.append(len(found))
        return found

    vars(watched).update(rooms=rooms)
    channel = ByHost(dead=once(gate, Delivered()))
    async with working(store, serving(channel)):
        await until_async(lambda: channel.sending, "the probe on its way")
        looks.clear()
        await until_async(lambda: len(looks) > 3, "some looks while nothing else is left in its room")
        gate.set()
        await until_async(lambda: completed(sqlite, DEAD) == 1, "the probe")
        await until_async(lambda: sqlite.one("select allowance from sendonce_breakers") == 2, "what it shows")


async def test_probe_is_not_taken_while_its_host_has_no_slot_left(sqlite: Database, sqlite_store: Store) -> None:
    publish(sqlite, 1, DEAD)
    room = f"destination:{DEAD}"
    await sqlite_store.trip(room, pause=MS, code=None)
    await sqlite_store.start(1, 10, timedelta(minutes=5))
    fairness = Fairness(10, per_place=1)
    breakers = Breakers(sqlite_store, after=3, pauses=Pauses(first=MS, longest=MS), emit=lambda _: None)
    rooms = parking.Parking(sqlite_store, fairness, breakers, hold=timedelta(minutes=5))
    fairness.begin([a_claim(destination="test://dead.example/other", address="test://dead.example/other")])
    await rooms.look(Served(["https", "test"]))
    assert (await rooms.allot(5)).quotas == {}

    assert (await sqlite_store.let_out(room, 1, timedelta(minutes=5))).amount == 1, "nobody has taken it"


async def test_rate_does_not_keep_a_breakers_probes_from_going_out(database: Database, store: Store) -> None:
    """What waits for both would go from the one room to the other for ever."""
    id = await store.add_subscription(
        tenant="", types=["*"], destination=DEAD, policy=None, description=None, operator="ada", rate=10.0
    )
    with database.connection() as connection:
        Outbox().publish_many(connection, [Draft("memo.created", {}, key=f"m-{n}", to=None) for n in range(23)])
    await store.trip(f"destination:subscription:{id}", pause=50 * MS, code=None)
    channel = ByHost(dead=Delivered())
    sent: list[float] = []
    channel.scripts["dead"] = [lambda: noted(sent)]
    begun = asyncio.get_running_loop().time()
    async with working(store, serving(channel), concurrency=20):
        await until_async(lambda: len(sent) == 23, "all of them")

    assert sent[-1] - begun >= 1.0, "the rate is kept: ten may have been saved up"


async def test_breaker_of_a_shared_host_ignores_one_recipients_failures(database: Database, store: Store) -> None:
    await store.add_subscription(
        tenant="", types=["*"], destination="test:a", policy=None, description=None, operator="ada", rate=50.0
    )
    with database.connection() as connection:
        Outbox().publish_many(connection, [Draft("memo.created", {}, key=f"m-{n}", to=None) for n in range(10)])
    await store.trip("place:test", pause=50 * MS, code=None)
    channel = Told(Delivered())
    async with working(store, serving(channel), concurrency=20):
        await until_async(lambda: len(channel.sent) == 10, "all of them")


async def test_slot_goes_to_what_waits_and_to_what_is_due_in_turn(sqlite: Database, sqlite_store: Store) -> None:
    room = f"destination:{DEAD}"
    publish(sqlite, 60, DEAD)
    await sqlite_store.trip(room, pause=MS, code=None)
    await sqlite_store.start(1, 100, timedelta(minutes=5))
    for _ in range(5):
        out = await sqlite_store.let_out(room, 64, timedelta(minutes=5))
        await sqlite_store.learn(room, out.turn, Answers(through=out.amount), Pauses(first=MS, longest=MS))
    publish(sqlite, 60, WELL)
    channel = ByHost(dead=after(0.005, Delivered()), well=after(0.005, Delivered()))
    async with working(sqlite_store, serving(channel), concurrency=1):
        await until_async(lambda: len(channel.sent) >= 50, "some of both")

    assert min(channel.sent_to(DEAD), channel.sent_to(WELL)) >= 20
