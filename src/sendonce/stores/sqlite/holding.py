"""What holds a delivery back, for claims: the first of subscription, stop, breaker, rate, destination and place."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from sendonce.domain.attempts import Claim
from sendonce.domain.destinations import place_of, scheme_of
from sendonce.domain.limits import Limits, has_host
from sendonce.stores.sqlite.lanes import Row, Transaction

PARK_LIMIT = 2000
_HELD = ("paused", "disabled")
_WIDTH = len(Claim._fields)
_OF_CLAIM = tuple(
    Claim._fields.index(name)
    for name in ("delivery_id", "destination", "address", "tenant", "subscription_id", "subscription_state")
)


class Holders(NamedTuple):
    """The stops and breakers there are now."""

    stops: tuple[tuple[str, str], ...]
    breakers: frozenset[str]

    @classmethod
    def now(cls, transaction: Transaction) -> "Holders":
        stops = tuple((scope, value) for scope, value, *_ in transaction.fetch("stops"))
        return cls(stops, frozenset(name for (name,) in transaction.fetch("breakers")))

    @property
    def is_all_stopped(self) -> bool:
        return any(scope == "all" for scope, _ in self.stops)

    def room_of(self, row: Row, room: str | None) -> str | None:
        """What holds this row (the columns of `holders`) but for the room it is in; limits are not looked at."""
        _, destination, address, tenant, subscription_id, state, rate = row
        if state in _HELD:
            return f"subscription:{subscription_id}"
        for scope, value in self.stops:
            named = {"channel": (scheme_of(address),), "destination": (destination, address), "tenant": (tenant,)}
            if value in named.get(scope, ()):
                return f"stop:{scope}:{value}"
        for name in (f"destination:{destination}", f"place:{place_of(address)}") if self.breakers else ():
            if name in self.breakers and name != room:
                return name
        # A rate does not hold what a breaker lets out: who waits for both would go from one to the other for ever.
        held = None if rate is None or room in self.breakers else f"rate:{subscription_id}"
        return None if held == room else held


def sendable(rows: Sequence[Row], holders: Holders, limits: Limits, room: str | None) -> list[Row]:
    """Those of these claims, in order, that nothing holds back, within the limits."""
    left, left_at_place = dict(limits.left), dict(limits.left_at_place)
    found = []
    for row in rows:
        facts = (*(row[index] for index in _OF_CLAIM), row[_WIDTH])
        destination, address = facts[1], facts[2]
        if holders.room_of(facts, room) is not None:
            continue
        place = place_of(address)
        if place:
            if left_at_place.get(place, limits.each_place) <= 0:
                continue
            if has_host(address) and left.get(destination, limits.each) <= 0:
                continue
            left_at_place[place] = left_at_place.get(place, limits.each_place) - 1
            left[destination] = left.get(destination, limits.each) - 1
        found.append(row)
    return found


def park(transaction: Transaction, holders: Holders, limits: Limits, room: str | None) -> int:
    """Park what must not be sent now among the oldest due rows, or at the front of a room; how many were."""
    values = {"limit": PARK_LIMIT, "room": room}
    rows = transaction.fetch("front_due" if room is None else "front_waiting", values)
    full, full_places = set(limits.full), set(limits.full_places)
    parked = []
    for row in rows:
        # Whoever waits for its own room stays there, whatever else would hold it as well.
        held = holders.room_of(row, None) or _full_room(row, full, full_places)
        if held is not None and held != room:
            parked.append((row[0], held))
    if parked:
        transaction.change("park", {"parked": json.dumps(parked)})
    return len(parked)


def _full_room(row: Row, full: set[str], full_places: set[str]) -> str | None:
    destination, place = row[1], place_of(row[2])
    if destination in full and has_host(row[2]):
        return f"destination:{destination}"
    return f"place:{place}" if place and place in full_places else None
