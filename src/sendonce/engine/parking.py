"""Which rooms to claim from, and how much: what waits there is let out as limits, rates and breakers allow."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from sendonce.domain.attempts import Claim
from sendonce.domain.breakers import LetOut
from sendonce.domain.destinations import place_of
from sendonce.domain.serving import Served, place_of_name
from sendonce.engine.breakers import Breakers
from sendonce.engine.fairness import Fairness
from sendonce.engine.orchestrator import Orchestrator
from sendonce.observability.facts import Emit, NotServed
from sendonce.store.ports import RoomStore
from sendonce.store.records import Room

STEP = 1000


class Unserved:
    """Tends one room at each look, in turn, with a bounded step: whoever looks does not pay for how much waits."""

    def __init__(self, orchestrator: Orchestrator, emit: Emit) -> None:
        self._orchestrator = orchestrator
        self._emit = emit
        self._after: dict[str, int] = {}

    async def tend(self, rooms: Sequence[Room], served: Served) -> None:
        """Take the next bounded step in one of these rooms."""
        if not rooms:
            self._after.clear()
            return
        # Those tended last are at the end.
        turns = {name: turn for turn, name in enumerate(self._after)}
        room = min((each.name for each in rooms), key=lambda name: turns.get(name, -1))
        after = self._after.pop(room, 0)
        kind, _, name = room.partition(":")
        if kind != "channel":
            self._after[room] = 0
            await self._orchestrator.park_unserved(room, served)
            return
        given_up, last = await self._orchestrator.give_up_unserved(name, after, STEP)
        self._after[room] = last or 0
        if given_up:
            self._emit(NotServed(channel=name, expired=given_up))


LOOK_SECONDS = 1.0
LOOK_AGAIN_SECONDS = 0.1
ROOMS_AT_ONCE = 200
FORGET_SECONDS = 600.0
# A room with hosts may hold what only others serve: after so many looks in vain it is looked into at every tenth only.
IN_VAIN, EVERY = 3, 10


@dataclass(slots=True)
class Allotment:
    """How many to take out of each room, and what breakers and rates have given for them."""

    quotas: dict[str, int] = field(default_factory=dict)
    let_out: dict[str, LetOut] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)
    # What is promised so far, of what destinations and places have left.
    promised: Counter[str] = field(default_factory=Counter)

    @property
    def probes(self) -> dict[str, float]:
        """Rooms out of which a probe is sent, and where in them to look for it."""
        return {room: out.spread for room, out in self.let_out.items() if out.spread is not None}


class Parking:
    """Reads the list of rooms now and then, a bounded step each time; nothing is forgotten when a worker dies."""

    def __init__(self, store: RoomStore, fairness: Fairness, breakers: Breakers, *, hold: timedelta) -> None:
        self._store = store
        self._fairness = fairness
        self._breakers = breakers
        self._hold = hold
        self._rooms: dict[str, Room] = {}
        self._served: list[str] = []
        self._in_vain: dict[str, int] = {}
        self._after = ""
        self._look_at = 0.0
        self._forget_at = time.monotonic() + FORGET_SECONDS

    @property
    def has_open(self) -> bool:
        """True when something is known to wait that only needs a free slot, its turn, or an answer."""
        return self._breakers.is_waiting or any(map(_is_open, self._rooms.values()))

    async def is_empty(self, served: Served) -> bool:
        """True when nothing waits for this worker but behind breakers that are open. Looks at every room, now."""
        after = ""
        while rooms := await self._store.rooms(after=after, limit=ROOMS_AT_ONCE):
            if any(_is_open(room) and self._is_ours(room, served) for room in rooms):
                self._look_at = 0.0
                return False
            after = rooms[-1].name
        return True

    def look_soon(self) -> None:
        """Read the list of rooms soon: something was parked just now."""
        self._look_at = min(self._look_at, time.monotonic() + LOOK_AGAIN_SECONDS)

    async def look(self, served: Served) -> list[Room] | None:
        """Read the list of rooms; those of them that no live worker serves. None when it is not time to."""
        if await self._breakers.apply():
            self._look_at = 0.0
        now = time.monotonic()
        if now < self._look_at:
            return None
        self._look_at = now + LOOK_SECONDS
        rooms = await self._store.rooms(after=self._after, limit=ROOMS_AT_ONCE)
        self._after = rooms[-1].name if len(rooms) == ROOMS_AT_ONCE else ""
        # Those served last stay at the end: whoever comes first by name does not come first every time.
        last = {name: place for place, name in enumerate(self._served)}
        ours = [room for room in rooms if self._is_ours(room, served)]
        self._rooms = {room.name: room for room in sorted(ours, key=lambda room: last.get(room.name, -1))}
        self._in_vain = {name: times + 1 for name, times in self._in_vain.items() if name not in self._rooms}
        self._served = [name for name in self._served if name in self._rooms]
        self._breakers.see(room.name for room in rooms if room.breaker is not None)
        if now >= self._forget_at:
            self._forget_at = now + FORGET_SECONDS
            await self._store.forget_breakers(timedelta(seconds=FORGET_SECONDS))
        return [room for room in rooms if _is_unserved(room, served)]

    async def allot(self, free: int) -> Allotment:
        """How many to take out of each room now, at most `free` altogether, and no more than its share of one room."""
        allotment = Allotment()
        share = max(1, free // max(1, sum(map(_is_open, self._rooms.values()))))
        for room in list(self._rooms.values()):
            if free <= 0:
                break
            lanes = self._lanes_of(room)
            left = min([most - allotment.promised[lane] for lane, most in lanes.items()], default=free)
            quota = await self._quota(room, min(free, share, room.waiting, left), allotment)
            if quota > 0:
                allotment.quotas[room.name] = quota
                allotment.promised.update(dict.fromkeys(lanes, quota))
                free -= quota
        return allotment

    async def taken(self, allotment: Allotment, claims: Sequence[Claim]) -> None:
        """These were claimed for it; what was taken and not sent is given back.

        Rooms that must be empty now are left alone until the next look.
        """
        sent = self._breakers.begin(claims, allotment.let_out)
        self._served = [name for name in self._served if name not in allotment.quotas] + list(allotment.quotas)
        self._in_vain |= {name: 0 if claims else self._in_vain.get(name, 0) + 1 for name in allotment.quotas}
        for name, quota in allotment.quotas.items():
            room = self._rooms.pop(name)
            if claims and room.waiting > quota and _is_open(room):
                self._rooms[name] = replace(room, waiting=room.waiting - quota)
        for name, out in allotment.let_out.items():
            if (unsent := out.amount - sent.get(name, 0)) > 0:
                await self._store.give_back(name, out.turn, unsent)
        spent = Counter(claim.subscription_id for claim in claims)
        for subscription_id, tokens in allotment.tokens.items():
            await self._return_tokens(subscription_id, tokens - spent[subscription_id])

    def _is_ours(self, room: Room, served: Served) -> bool:
        """Return whether this worker serves what waits there, as far as the room's name shows."""
        address = _address_of(room, served)
        if address is not None:
            return served.lacked(address, is_subscription=_is_of_subscription(room)) is None
        times = self._in_vain.get(room.name, 0)
        return times < IN_VAIN or times % EVERY == 0 or served.is_all or served.known == served.names

    def _lanes_of(self, room: Room) -> dict[str, int]:
        """What the destination and the place of this room have left."""
        kind, _, name = room.name.partition(":")
        if kind == "place":
            return {room.name: self._fairness.places.left(name)}
        if kind == "channel":
            place = place_of_name(name)
            return {f"place:{place}": self._fairness.places.left(place)}
        destination = f"subscription:{name}" if kind == "rate" else name
        lanes = {f"destination:{destination}": self._fairness.destinations.left(destination)}
        if place := place_of(room.address or destination):
            lanes[f"place:{place}"] = self._fairness.places.left(place)
        return lanes

    async def _quota(self, room: Room, wanted: int, allotment: Allotment) -> int:
        """What rates and breakers leave of it: these are asked last, because what they give is nobody else's then."""
        if wanted < 1 or not (_is_open(room) or room.is_probe_due):
            return 0
        subscription_id = _rated(room)
        if subscription_id is not None:
            wanted = await self._store.take_tokens(subscription_id, wanted)
        if room.breaker is None or wanted < 1:
            amount = wanted
        else:
            out = await self._store.let_out(room.name, wanted, self._hold)
            amount = out.amount
            if amount:
                allotment.let_out[room.name] = out
            else:
                del self._rooms[room.name]  # nothing more until somebody has heard of what is on its way
        if subscription_id is not None:
            await self._return_tokens(subscription_id, wanted - amount)
            allotment.tokens[subscription_id] = allotment.tokens.get(subscription_id, 0) + amount
        return amount

    async def _return_tokens(self, subscription_id: int, amount: int) -> None:
        if amount > 0:
            await self._store.give_back_tokens(subscription_id, amount)


def _address_of(room: Room, served: Served) -> str | None:
    """By which it is told whether a room is served: an address or a name; None when it may hold several."""
    kind, _, name = room.name.partition(":")
    match kind:
        case "channel":
            return name
        case "place":
            return name if name in served.known else None
    return room.address if _is_of_subscription(room) else name


def _is_of_subscription(room: Room) -> bool:
    return room.name.startswith(("rate:", "destination:subscription:"))


def _is_unserved(room: Room, served: Served) -> bool:
    address = _address_of(room, served)
    return address is not None and not served.is_live(address, is_subscription=_is_of_subscription(room))


def _is_open(room: Room) -> bool:
    return room.breaker is None or room.breaker.allowance > 0


def _rated(room: Room) -> int | None:
    """The subscription whose rate is to be looked at. What a breaker lets out does not wait for its rate any more."""
    kind, _, name = room.name.partition(":")
    if room.breaker is not None and kind == "destination":
        kind, _, name = name.partition(":")
    return int(name) if kind in ("rate", "subscription") and name.isdecimal() else None
