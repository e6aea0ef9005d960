"""Which destinations fail again and again: their breakers are tripped, and eased when something gets through."""

from collections.abc import Iterable
from datetime import timedelta

from sendonce.domain.attempts import Claim
from sendonce.domain.destinations import place_of
from sendonce.domain.limits import has_host
from sendonce.domain.outcomes import (
    Accepted,
    Deferred,
    Delivered,
    Failed,
    Outcome,
    Refused,
    Unknown,
    counts_for_breaker,
)
from sendonce.observe.facts import Emit, Tripped
from sendonce.stores.ports import RoomStore

# Failures are counted for so many rooms at most: each of a million addresses that fail once is not remembered for ever.
COUNTED = 10_000
# A breaker that has let out so many at once is not needed any more.
ENOUGH = 64


def room_of(claim: Claim) -> str | None:
    """Where this one's like wait while their breaker is open: addresses with a host are held back one by one."""
    place = place_of(claim.address)
    if not place:
        return None
    return f"destination:{claim.destination}" if has_host(claim.address) else f"place:{place}"


class Breakers:
    """Counts failures in a row, and keeps what is to be written about them until `apply`."""

    def __init__(self, store: RoomStore, *, after: int, pause: timedelta, longest: timedelta, emit: Emit) -> None:
        self._store = store
        self._after = after
        self._pause = pause
        self._longest = longest
        self._emit = emit
        self._failures: dict[str, int] = {}
        self.known: set[str] = set()
        self._to_trip: dict[str, str | None] = {}
        self._to_ease: set[str] = set()

    def note(self, claim: Claim, outcome: Outcome) -> None:
        """An attempt has ended."""
        if type(outcome) is Delivered and not self._failures and not self.known:
            return
        room = room_of(claim)
        if room is None:
            return
        match outcome:
            case Delivered() | Accepted() | Refused():
                self._failures.pop(room, None)
                self._to_trip.pop(room, None)
                if room in self.known:
                    self._to_ease.add(room)
            case Failed(code=code) | Unknown(code=code) | Deferred(code=code) if counts_for_breaker(
                outcome, of_channel=room.startswith("place:")
            ):
                if len(self._failures) >= COUNTED and room not in self._failures:
                    del self._failures[next(iter(self._failures))]
                count = self._failures[room] = self._failures.get(room, 0) + 1
                if count >= self._after or room in self.known:
                    self._failures.pop(room)
                    self._to_ease.discard(room)
                    self._to_trip[room] = code

    def know(self, rooms: Iterable[str]) -> None:
        """These rooms have a breaker now."""
        self.known = set(rooms)

    async def apply(self) -> bool:
        """Write what was noted; True when there was something. What cannot be written is noted again by the next."""
        tripping, self._to_trip = self._to_trip, {}
        easing, self._to_ease = self._to_ease, set()
        for room, code in tripping.items():
            self.known.add(room)
            if await self._store.trip(room, pause=self._pause, longest=self._longest, code=code):
                self._emit(Tripped(code=code))
        for room in sorted(easing):
            await self._store.ease(room, enough=ENOUGH)
        return bool(tripping or easing)
