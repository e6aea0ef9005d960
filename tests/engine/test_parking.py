"""Which rooms are served, and with how much: in turn, within limits, and never all by the first."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sendonce.domain.breakers import Breaker, LetOut, Pauses
from sendonce.domain.outcomes import Delivered
from sendonce.domain.serving import Served
from sendonce.engine.breakers import Breakers
from sendonce.engine.fairness import Fairness
from sendonce.engine.parking import FORGET_SECONDS, ROOMS_AT_ONCE, Parking
from sendonce.store.ports import RoomStore
from sendonce.store.records import Room
from tests.domain.values import a_claim

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOLD = timedelta(seconds=30)
ALL = Served(["https", "http", "mailto", "test", "sms"])


class Hotel:
    """A store that has rooms, and nothing else."""

    def __init__(self, *rooms: Room) -> None:
        self.there = list(rooms)
        self.permits = 1
        self.tokens = 3
        self.returned: list[tuple[str, int, int]] = []
        self.forgotten: list[timedelta] = []

    async def rooms(self, *, after: str, limit: int) -> list[Room]:
        return [room for room in self.there if room.name > after][:limit]

    async def let_out(self, room: str, wanted: int, hold: timedelta) -> LetOut:
        out = LetOut(min(self.permits, wanted), 7, 0.5 if wanted else None)
        self.permits -= out.amount
        return out

    async def give_back(self, room: str, turn: int, amount: int) -> None:
        self.returned.append((room, turn, amount))

    async def take_tokens(self, subscription_id: int, wanted: int) -> int:
        taken = min(self.tokens, wanted)
        self.tokens -= taken
        return taken

    async def give_back_tokens(self, subscription_id: int, amount: int) -> None:
        self.tokens += amount

    async def forget_breakers(self, age: timedelta) -> int:
        self.forgotten.append(age)
        return 0


def a_room(name: str, *, waiting: int = 1000, allowance: int | None = None, due: bool = False) -> Room:
    if allowance is None:
        return Room(name=name, waiting=waiting)
    breaker = Breaker(opened_at=NOW, probe_at=NOW, pause=HOLD, turn=1, allowance=allowance)
    return Room(name=name, waiting=waiting, breaker=breaker, is_probe_due=due)


async def quotas(waiting: Parking, free: int) -> dict[str, int]:
    return (await waiting.allot(free)).quotas


async def looked(hotel: Hotel, fairness: Fairness | None = None) -> Parking:
    store: RoomStore = hotel  # type: ignore[assignment]
    breakers = Breakers(store, after=10, pauses=Pauses(first=HOLD, longest=HOLD), emit=lambda _: None)
    waiting = Parking(store, fairness or Fairness(100), breakers, hold=HOLD)
    await waiting.look(ALL)
    return waiting


async def test_slots_that_are_free_are_shared_in_turn() -> None:
    waiting = await looked(Hotel(*[a_room(f"destination:https://h{n:02}.example/") for n in range(20)]))

    first = await waiting.allot(8)
    await waiting.taken(first, [a_claim()] * 8)
    second = await waiting.allot(8)

    assert set(first.quotas.values()) == {1}
    assert len(first.quotas) == len(second.quotas) == 8
    assert not first.quotas.keys() & second.quotas.keys()


async def test_parked_queue_that_was_served_last_stays_last() -> None:
    hotel = Hotel(*[a_room(f"destination:https://h{n:02}.example/") for n in range(3)])
    waiting = await looked(hotel)
    first = await waiting.allot(1)
    await waiting.taken(first, [a_claim()])
    waiting._look_at = 0.0
    await waiting.look(ALL)

    assert list(first.quotas) == ["destination:https://h00.example/"]
    assert list(await quotas(waiting, 1)) == ["destination:https://h01.example/"]


async def test_parked_queues_that_one_look_does_not_reach_are_met_by_the_next() -> None:
    names = [f"destination:https://h{n:03}.example/" for n in range(ROOMS_AT_ONCE + 2)]
    waiting = await looked(Hotel(*map(a_room, names)))
    met = []

    for _ in range(2):
        waiting._look_at = 0.0
        await waiting.look(ALL)
        met.append(list(await quotas(waiting, len(names))))

    assert met == [names[ROOMS_AT_ONCE:], names[:ROOMS_AT_ONCE]]


async def test_parked_queue_alone_gets_what_its_destination_has_left() -> None:
    fairness = Fairness(100)
    claims = [a_claim(destination="https://a.example/", address="https://a.example/") for _ in range(4)]
    fairness.begin(claims)
    waiting = await looked(Hotel(a_room("destination:https://a.example/")), fairness)

    assert await quotas(waiting, 50) == {"destination:https://a.example/": 6}
    for claim in claims:
        fairness.end(claim, Delivered(), 5.0)
    assert await quotas(waiting, 50) == {"destination:https://a.example/": 10}


async def test_parked_queue_with_a_rest_is_taken_next() -> None:
    waiting = await looked(Hotel(a_room("place:mailto", waiting=15)))
    first = await waiting.allot(10)
    await waiting.taken(first, [a_claim(destination="mailto:a@b.c", address="mailto:a@b.c")] * 10)

    assert (first.quotas, await quotas(waiting, 10)) == ({"place:mailto": 10}, {"place:mailto": 5})


async def test_probe_goes_out_behind_an_open_breaker_when_it_is_due() -> None:
    waiting = await looked(Hotel(a_room("destination:a://b/", allowance=0), a_room("place:c", allowance=0, due=True)))

    assert await quotas(waiting, 50) == {"place:c": 1}
    assert await quotas(waiting, 50) == {}, "somebody else has the probe"
    assert not waiting.has_open


async def test_breaker_that_closes_lets_out_what_it_allows() -> None:
    hotel = Hotel(a_room("place:mailto", allowance=4))
    hotel.permits = 4
    waiting = await looked(hotel)

    assert await quotas(waiting, 50) == {"place:mailto": 4}
    assert await quotas(waiting, 50) == {}, "these are on their way"


async def test_rate_gives_its_tokens() -> None:
    waiting = await looked(Hotel(a_room("rate:7")))

    assert await quotas(waiting, 50) == {"rate:7": 3}


async def test_dead_rooms_do_not_make_the_others_share() -> None:
    rooms = [a_room(f"destination:https://d{n:02}.example/", allowance=0) for n in range(50)]
    waiting = await looked(Hotel(*rooms, a_room("place:mailto")))

    assert await quotas(waiting, 40) == {"place:mailto": 40}
    assert await waiting.is_empty(ALL) is False


async def test_probe_that_was_not_claimed_is_given_back() -> None:
    hotel = Hotel(a_room("place:mailto", allowance=4))
    hotel.permits = 4
    waiting = await looked(hotel)
    allotment = await waiting.allot(50)
    await waiting.taken(allotment, [a_claim(destination="mailto:a@b.c", address="mailto:a@b.c")])

    assert hotel.returned == [("place:mailto", 7, 3)]


async def test_tokens_are_taken_for_what_is_claimed_alone() -> None:
    hotel = Hotel(a_room("rate:7"))
    waiting = await looked(hotel)
    allotment = await waiting.allot(50)
    await waiting.taken(allotment, [a_claim(subscription_id=7), a_claim(subscription_id=8)])

    assert hotel.tokens == 2


async def test_rate_limit_token_is_not_taken_while_its_host_is_busy() -> None:
    """Others who wait for the same host had what is left there; they do not come first for ever."""
    address = "https://a.example/hook"
    hotel = Hotel(a_room("place:a.example"), replace(a_room("rate:7"), address=address))
    fairness = Fairness(10, per_place=1)
    waiting = await looked(hotel, fairness)
    first = await waiting.allot(5)
    await waiting.taken(first, [a_claim(destination=address, address=address)])

    assert (first.quotas, hotel.tokens) == ({"place:a.example": 1}, 3)
    assert await quotas(waiting, 5) == {"rate:7": 1}


async def test_rate_limit_allows_no_further_permit() -> None:
    hotel = Hotel(a_room("destination:subscription:7", allowance=8))
    hotel.permits, hotel.tokens = 8, 2
    waiting = await looked(hotel)

    assert await quotas(waiting, 50) == {"destination:subscription:7": 2}
    assert hotel.permits == 6


async def test_tokens_are_given_back_when_a_breaker_lets_out_fewer() -> None:
    hotel = Hotel(a_room("destination:subscription:7", allowance=8))
    hotel.permits, hotel.tokens = 1, 3
    waiting = await looked(hotel)

    assert await quotas(waiting, 50) == {"destination:subscription:7": 1}
    assert hotel.tokens == 2


async def test_parked_queue_of_a_rate_gets_what_its_subscription_has_left() -> None:
    address = "https://a.example/hook"
    hotel = Hotel(replace(a_room("rate:7"), address=address))
    fairness = Fairness(100)
    fairness.begin([a_claim(destination="subscription:7", address=address, subscription_id=7) for _ in range(9)])
    waiting = await looked(hotel, fairness)

    assert await quotas(waiting, 50) == {"rate:7": 1}
    assert hotel.tokens == 2


async def test_breakers_are_forgotten_now_and_then_and_not_at_every_look() -> None:
    hotel = Hotel(a_room("place:mailto"))
    waiting = await looked(hotel)
    assert hotel.forgotten == [], "not at the first look"

    waiting._forget_at = 0.0
    for _ in range(3):
        waiting._look_at = 0.0
        await waiting.look(ALL)

    assert hotel.forgotten == [timedelta(seconds=FORGET_SECONDS)]
