"""Which rooms are served, and with how much: in turn, within limits, and never all by the first."""

from datetime import UTC, datetime, timedelta

from sendonce.domain.outcomes import Delivered
from sendonce.engine.breakers import Breakers
from sendonce.engine.fairness import Fairness
from sendonce.engine.waiting import WaitingRooms
from sendonce.stores.ports import RoomStore
from sendonce.stores.records import Breaker, Room
from tests.domain.values import a_claim

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOLD = timedelta(seconds=30)


class Hotel:
    """A store that has rooms, and nothing else."""

    def __init__(self, *rooms: Room) -> None:
        self.there = list(rooms)
        self.probes = 1
        self.tokens = 3

    async def rooms(self, *, after: str, limit: int) -> list[Room]:
        return [room for room in self.there if room.name > after][:limit]

    async def take_probe(self, room: str, hold: timedelta) -> bool:
        self.probes -= 1
        return self.probes >= 0

    async def take_tokens(self, subscription_id: int, wanted: int) -> int:
        return min(self.tokens, wanted)


def a_room(name: str, *, waiting: int = 1000, allowance: int | None = None, due: bool = False) -> Room:
    if allowance is None:
        return Room(name=name, waiting=waiting)
    breaker = Breaker(
        opened_at=NOW, probe_at=NOW, is_probe_due=due, is_probing=False, allowance=allowance, error_code=None
    )
    return Room(name=name, waiting=waiting, breaker=breaker)


async def looked(hotel: Hotel, fairness: Fairness | None = None) -> WaitingRooms:
    store: RoomStore = hotel  # type: ignore[assignment]
    breakers = Breakers(store, after=10, pause=HOLD, longest=HOLD, emit=lambda _: None)
    waiting = WaitingRooms(store, fairness or Fairness(100), breakers, hold=HOLD)
    await waiting.look()
    return waiting


async def test_free_slots_are_shared_and_everybody_has_a_turn() -> None:
    waiting = await looked(Hotel(*[a_room(f"destination:https://h{n:02}.example/") for n in range(20)]))

    first = await waiting.quotas(8)
    waiting.taken(first, 8)
    second = await waiting.quotas(8)

    assert set(first.values()) == {1}
    assert len(first) == len(second) == 8
    assert not first.keys() & second.keys()


async def test_who_was_served_last_is_last_after_the_next_look_too() -> None:
    hotel = Hotel(*[a_room(f"destination:https://h{n:02}.example/") for n in range(3)])
    waiting = await looked(hotel)
    first = await waiting.quotas(1)
    waiting.taken(first, 1)
    waiting._look_at = 0.0
    await waiting.look()

    assert list(first) == ["destination:https://h00.example/"]
    assert list(await waiting.quotas(1)) == ["destination:https://h01.example/"]


async def test_a_room_alone_gets_what_its_destination_has_left() -> None:
    fairness = Fairness(100)
    claims = [a_claim(destination="https://a.example/", address="https://a.example/") for _ in range(4)]
    fairness.begin(claims)
    waiting = await looked(Hotel(a_room("destination:https://a.example/")), fairness)

    assert await waiting.quotas(50) == {"destination:https://a.example/": 6}
    for claim in claims:
        fairness.end(claim, Delivered(), 5.0)
    assert await waiting.quotas(50) == {"destination:https://a.example/": 10}


async def test_behind_an_open_breaker_one_probe_goes_out_when_it_is_due() -> None:
    waiting = await looked(Hotel(a_room("destination:a://b/", allowance=0), a_room("place:c", allowance=0, due=True)))

    assert await waiting.quotas(50) == {"place:c": 1}
    assert await waiting.quotas(50) == {}, "somebody else has the probe"
    assert not waiting.has_open


async def test_a_breaker_that_closes_lets_out_what_it_allows() -> None:
    waiting = await looked(Hotel(a_room("place:mailto", allowance=4)))

    assert await waiting.quotas(50) == {"place:mailto": 4}


async def test_a_rate_gives_its_tokens() -> None:
    waiting = await looked(Hotel(a_room("rate:7")))

    assert await waiting.quotas(50) == {"rate:7": 3}


async def test_dead_rooms_do_not_make_the_others_share() -> None:
    rooms = [a_room(f"destination:https://d{n:02}.example/", allowance=0) for n in range(50)]
    waiting = await looked(Hotel(*rooms, a_room("place:mailto")))

    assert await waiting.quotas(40) == {"place:mailto": 40}
    assert await waiting.is_empty() is False
