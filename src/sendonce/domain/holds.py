"""What holds a delivery back from being sent, and in which order that is looked at.

SQLite asks these functions; PostgreSQL has the same rule as functions of its own, and a test holds both to this one.
A held delivery is parked: `parked_on` names its hold, and whoever ends the hold finds what waits for it by that name.
"""

from collections.abc import Sequence, Set
from enum import StrEnum
from typing import NamedTuple

from sendonce.domain.destinations import place_of, scheme_of
from sendonce.domain.limits import Limits, has_host
from sendonce.domain.serving import Served

SHUT_STATES = ("paused", "disabled")


class HoldKind(StrEnum):
    """What can hold a delivery back, in the order in which it is checked."""

    SUBSCRIPTION = "subscription"
    STOP = "stop"
    CHANNEL = "channel"
    DESTINATION = "destination"
    PLACE = "place"
    RATE = "rate"


class Hold(NamedTuple):
    """One thing that holds deliveries back. `name` says which subscription, stop, channel, destination or place."""

    kind: HoldKind
    name: str

    @property
    def room(self) -> str:
        """Return how `parked_on` spells it."""
        return f"{self.kind}:{self.name}"

    @classmethod
    def of(cls, room: str) -> "Hold":
        """Return the hold that `parked_on` spells like this; ValueError when it spells none."""
        kind, _, name = room.partition(":")
        return cls(HoldKind(kind), name)


class Candidate(NamedTuple):
    """What the rule looks at of one delivery. `address` is where it goes to now, `rate` its subscription's."""

    delivery_id: int
    destination: str
    address: str
    tenant: str
    subscription_id: int | None
    subscription_state: str | None
    is_proven: bool
    rate: float | None

    def lacked_by(self, served: Served | None) -> str | None:
        """Return the name that serves it, when that is not this worker's. What is proven is not sent any more."""
        if served is None or self.is_proven:
            return None
        return served.lacked(self.address, is_subscription=self.subscription_id is not None)


class Holders(NamedTuple):
    """The stops (scope, value) in their order, and the rooms with a breaker, as they are now."""

    stops: Sequence[tuple[str, str]] = ()
    breakers: Set[str] = frozenset()

    @property
    def is_all_stopped(self) -> bool:
        return any(scope == "all" for scope, _ in self.stops)

    def shut(self, candidate: Candidate) -> Hold | None:
        """Return the stop or pause that holds it, if there is one."""
        if candidate.subscription_state in SHUT_STATES:
            return Hold(HoldKind.SUBSCRIPTION, str(candidate.subscription_id))
        for scope, value in self.stops:
            if value in _stopped_by(scope, candidate):
                return Hold(HoldKind.STOP, f"{scope}:{value}")
        return None

    def back(self, candidate: Candidate, room: str | None) -> Hold | None:
        """Return what holds it back from a claim, except the room it is claimed from and the limits."""
        if shut := self.shut(candidate):
            return shut
        if self.breakers:
            for hold in _ways(candidate):
                if hold.room in self.breakers and hold.room != room:
                    return hold
        # A rate does not hold what a breaker lets out: who waits for both would go from one to the other for ever.
        if candidate.rate is None or room in self.breakers:
            return None
        hold = Hold(HoldKind.RATE, str(candidate.subscription_id))
        return None if hold.room == room else hold


def sendable(candidates: Sequence[Candidate], holders: Holders, limits: Limits, room: str | None) -> list[int]:
    """Return the places of those of these candidates, in order, that nothing holds back, within the limits."""
    left, left_at_place = dict(limits.left), dict(limits.left_at_place)
    found = []
    for number, candidate in enumerate(candidates):
        if holders.back(candidate, room) is not None or candidate.lacked_by(limits.served) is not None:
            continue
        place = place_of(candidate.address)
        if place:
            if left_at_place.get(place, limits.each_place) <= 0:
                continue
            if has_host(candidate.address) and left.get(candidate.destination, limits.each) <= 0:
                continue
            left_at_place[place] = left_at_place.get(place, limits.each_place) - 1
            left[candidate.destination] = left.get(candidate.destination, limits.each) - 1
        found.append(number)
    return found


def parked(candidate: Candidate, holders: Holders, limits: Limits, room: str | None, *, is_old: bool) -> Hold | None:
    """Return what it is to be parked on instead of where it is; None when it stays.

    `is_old`: it has been due for so long that a live worker which serves it would have taken it.
    """
    lacked = candidate.lacked_by(limits.served)
    if lacked is None:
        # Whoever waits for its own room stays there, whatever else would hold it as well.
        hold = holders.back(candidate, None) or _full(candidate, limits)
    else:
        hold = holders.shut(candidate) or _left_to_others(lacked, limits.served, room, is_old=is_old)
    return None if hold is None or hold.room == room else hold


def _ways(candidate: Candidate) -> tuple[Hold, Hold]:
    return Hold(HoldKind.DESTINATION, candidate.destination), Hold(HoldKind.PLACE, place_of(candidate.address))


def _stopped_by(scope: str, candidate: Candidate) -> tuple[str, ...]:
    """Return the values of a stop of this scope that hold it."""
    if scope == "channel":
        return (scheme_of(candidate.address),)
    if scope == "destination":
        return candidate.destination, candidate.address
    return (candidate.tenant,) if scope == "tenant" else ()


def _left_to_others(name: str, served: Served | None, room: str | None, *, is_old: bool) -> Hold | None:
    """Return where it waits for a worker that serves it. It stays due where a live one will claim it."""
    is_elsewhere = served is not None and served.is_live(name) and not (room or "").startswith("channel:")
    return None if is_elsewhere and not is_old else Hold(HoldKind.CHANNEL, name)


def _full(candidate: Candidate, limits: Limits) -> Hold | None:
    """Return the destination or place that is at its limit. Limits name destinations with a host."""
    destination, place = _ways(candidate)
    if limits.left.get(candidate.destination, 1) <= 0:
        return destination
    return place if place.name and limits.left_at_place.get(place.name, 1) <= 0 else None
