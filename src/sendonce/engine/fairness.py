"""What this worker serves among all others, and how many sends each destination and host may have at once."""

import time
from collections.abc import Sequence

from sendonce.channels.registry import Channels
from sendonce.domain.attempts import Claim
from sendonce.domain.destinations import place_of
from sendonce.domain.limits import Limits, has_host
from sendonce.domain.outcomes import Accepted, Delivered, Failed, Outcome, Unknown
from sendonce.domain.serving import Served
from sendonce.store.ports import LeaseStore

QUICK_SECONDS = 1.0
# Every claim is told of what is remembered: a thousand names made it cost more than twice as much.
REMEMBERED = 100


class _Quota:
    __slots__ = ("allowance", "in_flight")

    def __init__(self, allowance: int) -> None:
        self.allowance = allowance
        self.in_flight = 0


class Quotas:
    """The counts of one kind: destinations, or places."""

    def __init__(self, first: int, most: int) -> None:
        self.first = min(first, most)
        self._most = most
        self._quotas: dict[str, _Quota] = {}

    def begin(self, name: str) -> None:
        quota = self._quotas.get(name)
        if quota is None:
            quota = self._quotas[name] = _Quota(self.first)
        quota.in_flight += 1

    def end(self, name: str, outcome: Outcome, seconds: float) -> None:
        quota = self._quotas[name]
        quota.in_flight -= 1
        if type(outcome) is Delivered or type(outcome) is Accepted:
            if seconds < QUICK_SECONDS and quota.allowance < self._most:
                quota.allowance += 1
        elif type(outcome) is Failed or type(outcome) is Unknown:
            quota.allowance = max(self.first, quota.allowance // 2)
        if not quota.in_flight:
            del self._quotas[name]
            if quota.allowance > self.first:
                self._quotas[name] = quota  # at the end: used last
                self._forget()

    def _forget(self) -> None:
        """Forget the quota that has been idle longest when there are too many."""
        if len(self._quotas) > REMEMBERED:
            del self._quotas[next(name for name, quota in self._quotas.items() if not quota.in_flight)]

    def left(self, name: str) -> int:
        quota = self._quotas.get(name)
        return self.first if quota is None else max(0, quota.allowance - quota.in_flight)

    def in_flight(self, name: str) -> int:
        quota = self._quotas.get(name)
        return 0 if quota is None else quota.in_flight

    def all_left(self) -> dict[str, int]:
        return {name: max(0, quota.allowance - quota.in_flight) for name, quota in self._quotas.items()}


class Fairness:
    """`per_destination` and `per_place` are the most that one of them ever gets."""

    def __init__(self, concurrency: int, *, per_destination: int | None = None, per_place: int | None = None) -> None:
        most = max(1, concurrency * 4 // 5) if per_destination is None else per_destination
        self.destinations = Quotas(max(concurrency // 10, 4), min(most, concurrency))
        self.places = Quotas(max(concurrency // 2, 10), min(per_place or concurrency, concurrency))

    def begin(self, claims: Sequence[Claim]) -> None:
        """Count these claims as in flight."""
        for claim in claims:
            place = place_of(claim.address)
            if place:
                self.places.begin(place)
                if has_host(claim.address):
                    self.destinations.begin(claim.destination)

    def end(self, claim: Claim, outcome: Outcome, seconds: float) -> None:
        """Note that a claim's attempt has ended, after so many seconds."""
        place = place_of(claim.address)
        if place:
            self.places.end(place, outcome, seconds)
            if has_host(claim.address):
                self.destinations.end(claim.destination, outcome, seconds)

    def in_flight(self, room: str) -> int:
        """Return how many claims of a room's destination or host are in flight."""
        kind, _, name = room.partition(":")
        return (self.places if kind == "place" else self.destinations).in_flight(name)

    def limits(self, served: Served | None = None) -> Limits:
        """Return the limits for the next claim."""
        return Limits(
            each=self.destinations.first,
            each_place=self.places.first,
            left=self.destinations.all_left(),
            left_at_place=self.places.all_left(),
            served=served,
        )


LOOK_SECONDS = 2.0
# A live worker that serves it comes by within this time, or else it is busy.
SPARE_SECONDS = 1.0


class Fleet:
    """`spare`: how long what is due is left to a live worker that serves it, in seconds."""

    def __init__(self, store: LeaseStore, channels: Channels, worker_id: int, *, spare: float = SPARE_SECONDS) -> None:
        self._store = store
        self._channels = channels
        self._worker_id = worker_id
        self._spare = spare
        self._served: Served | None = None
        self._look_at = 0.0

    async def served(self) -> Served:
        """Return what this worker serves now, and what only others serve."""
        now = time.monotonic()
        if self._served is None or now >= self._look_at:
            elsewhere = await self._store.served(self._worker_id)
            self._served = Served(self._channels.names, elsewhere, spare=self._spare)
            self._look_at = now + LOOK_SECONDS
        return self._served
