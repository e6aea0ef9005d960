"""What holds a delivery back from a claim: subscription, stop, channel, breaker, rate, destination or place."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from sendonce.domain.attempts import Claim
from sendonce.domain.destinations import place_of, scheme_of
from sendonce.domain.limits import Limits, has_host
from sendonce.domain.serving import Served
from sendonce.sql.steps import Row
from sendonce.store.sqlite.connection import Transaction

PARK_LIMIT = 2000
_HELD = ("paused", "disabled")
_WIDTH = len(Claim._fields)
_OF_CLAIM = tuple(
    Claim._fields.index(name)
    for name in (
        "delivery_id",
        "destination",
        "address",
        "tenant",
        "subscription_id",
        "subscription_state",
        "is_proven",
    )
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

    def shut_room_of(self, row: Row) -> str | None:
        """What a person has put in this row's way (the columns of `holders`), if anything."""
        _, destination, address, tenant, subscription_id, state, *_ = row
        if state in _HELD:
            return f"subscription:{subscription_id}"
        for scope, value in self.stops:
            named = {"channel": (scheme_of(address),), "destination": (destination, address), "tenant": (tenant,)}
            if value in named.get(scope, ()):
                return f"stop:{scope}:{value}"
        return None

    def room_of(self, row: Row, room: str | None) -> str | None:
        """What holds this row but for the room it is in; neither limits nor what is served are looked at."""
        if held := self.shut_room_of(row):
            return held
        _, destination, address, _, subscription_id, _, _, rate = row
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
        if holders.room_of(facts, room) is not None or _lacked(facts, limits.served) is not None:
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


def park(transaction: Transaction, holders: Holders, limits: Limits, room: str | None, *, spare: float = 0.0) -> int:
    """Park what must not be sent now among the oldest due rows, or at the front of a room; how many were.

    What has been due for less than `spare` seconds is left to a live worker that serves it.
    """
    values = {"limit": PARK_LIMIT, "room": room}
    rows = transaction.fetch("front_due" if room is None else "front_waiting", values)
    full, full_places = set(limits.full), set(limits.full_places)
    parked = []
    for row in rows:
        facts, due_at = row[:-1], row[-1]
        name = _lacked(facts, limits.served)
        if name is not None:
            is_old = due_at is not None and due_at <= transaction.now - spare * 1e6
            held = holders.shut_room_of(facts) or _channel_room(name, limits.served, room, is_old=is_old)
        else:
            # Whoever waits for its own room stays there, whatever else would hold it as well.
            held = holders.room_of(facts, None) or _full_room(facts, full, full_places)
        if held is not None and held != room:
            parked.append((row[0], held))
    if parked:
        transaction.change("park", {"parked": json.dumps(parked)})
    return len(parked)


def _lacked(row: Row, served: Served | None) -> str | None:
    """The name that serves this row, when it is not this worker's. What is proven is not sent any more."""
    return None if served is None or row[6] == 1 else served.lacked(row[2], is_subscription=row[4] is not None)


def _channel_room(name: str, served: Served | None, room: str | None, *, is_old: bool) -> str | None:
    """Where it waits for a worker that serves it. Where one that is alive comes by anyway it stays."""
    is_elsewhere = served is not None and served.is_live(name) and not (room or "").startswith("channel:")
    return None if is_elsewhere and not is_old else f"channel:{name}"


def _full_room(row: Row, full: set[str], full_places: set[str]) -> str | None:
    destination, place = row[1], place_of(row[2])
    if destination in full and has_host(row[2]):
        return f"destination:{destination}"
    return f"place:{place}" if place and place in full_places else None
