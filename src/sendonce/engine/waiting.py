"""Which rooms to claim from, and how much: what waits there is let out as limits, rates and breakers allow."""

import time
from collections.abc import Sequence
from datetime import timedelta

from sendonce.domain.destinations import place_of
from sendonce.domain.limits import has_host
from sendonce.engine.breakers import Breakers
from sendonce.engine.fairness import Fairness
from sendonce.stores.ports import RoomStore
from sendonce.stores.records import Room

LOOK_SECONDS = 1.0
LOOK_AGAIN_SECONDS = 0.1
ROOMS_AT_ONCE = 200
FORGET_SECONDS = 600.0


class WaitingRooms:
    """Reads the list of rooms now and then, a bounded step each time; nothing is forgotten when a worker dies."""

    def __init__(self, store: RoomStore, fairness: Fairness, breakers: Breakers, *, hold: timedelta) -> None:
        self._store = store
        self._fairness = fairness
        self._breakers = breakers
        self._hold = hold
        self._rooms: dict[str, Room] = {}
        self._served: list[str] = []
        self._after = ""
        self._look_at = 0.0
        self._forget_at = time.monotonic() + FORGET_SECONDS

    @property
    def has_open(self) -> bool:
        """True when something is known to wait that only needs a free slot or its turn."""
        return any(map(_is_open, self._rooms.values()))

    async def is_empty(self) -> bool:
        """True when nothing waits anywhere but behind breakers that are open. Looks at every room, now."""
        after = ""
        while rooms := await self._store.rooms(after=after, limit=ROOMS_AT_ONCE):
            if any(map(_is_open, rooms)):
                self._look_at = 0.0
                return False
            after = rooms[-1].name
        return True

    def look_soon(self) -> None:
        """Something was parked just now."""
        self._look_at = min(self._look_at, time.monotonic() + LOOK_AGAIN_SECONDS)

    async def look(self) -> None:
        """Read the list of rooms if it is time to."""
        if await self._breakers.apply():
            self._look_at = 0.0
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        rooms = await self._store.rooms(after=self._after, limit=ROOMS_AT_ONCE)
        self._after = rooms[-1].name if len(rooms) == ROOMS_AT_ONCE else ""
        # Those served last stay at the end: whoever comes first by name does not come first every time.
        served = {name: place for place, name in enumerate(self._served)}
        self._rooms = {room.name: room for room in sorted(rooms, key=lambda room: served.get(room.name, -1))}
        self._served = [name for name in self._served if name in self._rooms]
        self._know(rooms)
        if now >= self._forget_at:
            self._forget_at = now + FORGET_SECONDS
            await self._store.forget_breakers(timedelta(seconds=FORGET_SECONDS))

    async def quotas(self, free: int) -> dict[str, int]:
        """How many to take out of each room now, at most `free` altogether, and no more than its share of one room."""
        quotas: dict[str, int] = {}
        share = max(1, free // max(1, sum(map(_is_open, self._rooms.values()))))
        for room in list(self._rooms.values()):
            if free <= 0:
                break
            quota = await self._quota(room, min(free, share, room.waiting))
            if quota > 0:
                quotas[room.name] = quota
                free -= quota
        return quotas

    def taken(self, quotas: dict[str, int], claimed: int) -> None:
        """So many were claimed for these quotas: rooms that must be empty now are left alone until the next look."""
        self._served = [name for name in self._served if name not in quotas] + list(quotas)
        for name, quota in quotas.items():
            room = self._rooms.pop(name)
            left = room.waiting - quota
            if claimed and left > 0 and _is_open(room):
                self._rooms[name] = Room(name=name, waiting=left, breaker=room.breaker)

    def _know(self, rooms: Sequence[Room]) -> None:
        """A room that is not listed may be on another page, or empty because its probe is on its way."""
        elsewhere = self._breakers.known.difference([room.name for room in rooms])
        out = [name for name in elsewhere if self._fairness.in_flight(name)]
        self._breakers.know([*out, *(room.name for room in rooms if room.breaker is not None)])

    async def _quota(self, room: Room, wanted: int) -> int:
        kind, _, name = room.name.partition(":")
        if kind == "place":
            wanted = min(wanted, self._fairness.places.left(name))
        else:
            destination = f"subscription:{name}" if kind == "rate" else name
            wanted = min(wanted, self._fairness.destinations.left(destination))
            if has_host(destination):
                wanted = min(wanted, self._fairness.places.left(place_of(destination)))
        if room.breaker is None:
            return await self._within_rate(int(name), wanted) if kind == "rate" else wanted
        # What a breaker lets out does not wait for its rate any more, so that this is looked at here.
        subscription = name.removeprefix("subscription:")
        if room.breaker.allowance == 0:
            wanted = min(wanted, int(room.breaker.is_probe_due))
        else:
            wanted = min(wanted, room.breaker.allowance - self._fairness.in_flight(room.name))
        if subscription != name:
            wanted = await self._within_rate(int(subscription), wanted)
        # Last of all: a probe that could not be sent now would be nobody's for a while.
        is_ours = wanted > 0 and (_is_open(room) or await self._store.take_probe(room.name, self._hold))
        return wanted if is_ours else 0

    async def _within_rate(self, subscription_id: int, wanted: int) -> int:
        return await self._store.take_tokens(subscription_id, wanted) if wanted > 0 else 0


def _is_open(room: Room) -> bool:
    return room.breaker is None or room.breaker.allowance > 0
