"""Claims: what may be sent now is leased, what may not is parked. Written for this database: hot, and its own shape."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sendonce.domain.attempts import NO_FENCE, Claim, Fence, Lease, Refusal, Result, Verdict
from sendonce.domain.limits import NO_LIMITS, Limits
from sendonce.domain.serving import Served
from sendonce.errors import BadValue, StoreBusy
from sendonce.sql.queries import array
from sendonce.sql.steps import Steps, rows
from sendonce.store import leases
from sendonce.store.evidence import judge
from sendonce.store.losses import fence_values
from sendonce.store.ports import Started
from sendonce.store.postgres.connection import Connections, OwnConnection
from sendonce.store.postgres.settle import merged, settle, write
from sendonce.store.verbs import On

PARK_LIMIT = 2000
FULL_SCAN_SECONDS = 1.0
_WIDTH = len(Claim._fields)


class Claimed(NamedTuple):
    """What a claiming statement brought: a lease, how many rows were held back, the last one looked at, and why nothing
    may be claimed at all."""

    lease: Lease | None
    held: int
    until: tuple[datetime, int]
    refused: Refusal | None


class Claims(Connections):
    """Two lanes, so that the next claim goes on while the last results settle."""

    def __init__(self, where: str | OwnConnection, *, writes: bool = False) -> None:
        super().__init__(where, writes=writes)
        self.watermark: tuple[datetime, int] | None = None
        self._scanned_at = 0.0
        self._parking = PARK_LIMIT

    async def start(
        self, worker_id: int, limit: int, hold: timedelta, limits: Limits = NO_LIMITS, fence: Fence = NO_FENCE
    ) -> Started:
        """See ClaimStore."""
        since, since_id = self._look_from() or (None, 0)
        values = {"limit": limit, "since": since, "since_id": since_id}
        claimed = await self._claim("start", values, worker_id, hold, limits, fence)
        claims = claimed.lease.claims if claimed.lease else ()
        self.watermark = claimed.until if len(claims) + claimed.held >= limit else None
        # A few that are beyond a limit for a moment are parked alone; where most are in the way, more and more are.
        self._parking = min(self._parking * 4, PARK_LIMIT) if claimed.held > limit // 2 else limit
        if not claimed.held:
            return Started(claimed.lease, refused=claimed.refused)
        # What a live worker serves is left to it for a moment, unless most of what is due is in the way here.
        spare = limits.served.spare if limits.served and claimed.held <= limit // 2 else 0.0
        return Started(claimed.lease, await self._park_all(limits.after(claims), [None], claimed.lease, spare))

    async def start_waiting(
        self,
        worker_id: int,
        quotas: Mapping[str, int],
        hold: timedelta,
        limits: Limits = NO_LIMITS,
        fence: Fence = NO_FENCE,
        *,
        probes: Mapping[str, float] | None = None,
    ) -> Started:
        """See ClaimStore."""
        spreads = [(probes or {}).get(room) for room in quotas]
        values = {"rooms": array(list(quotas)), "quotas": array(list(quotas.values())), "spreads": array(spreads)}
        claimed = await self._claim("start_waiting", values, worker_id, hold, limits, fence)
        if not claimed.held:
            return Started(claimed.lease, refused=claimed.refused)
        claims = claimed.lease.claims if claimed.lease else ()
        return Started(claimed.lease, await self._park_all(limits.after(claims), list(quotas), claimed.lease))

    async def start_doubtful(
        self,
        worker_id: int,
        limit: int,
        hold: timedelta,
        *,
        after: int,
        served: Served | None = None,
        fence: Fence = NO_FENCE,
    ) -> Started:
        """See ClaimStore."""
        while True:
            values, limits = {"limit": limit, "after": after}, Limits(served=served)
            claimed = await self._claim("start_doubtful", values, worker_id, hold, limits, fence)
            if claimed.lease is not None or not claimed.held:
                return Started(claimed.lease, refused=claimed.refused)
            # All of these are stopped, paused or not served here; there may be others behind them.
            after = claimed.until[1]

    async def park_unserved(self, room: str, served: Served) -> int:
        """See ClaimStore."""
        return await self._park(Limits(served=served), room)

    async def _claim(
        self, query: str, values: Mapping[str, object], worker_id: int, hold: timedelta, limits: Limits, fence: Fence
    ) -> Claimed:
        """Run one of the claiming statements, which share their columns and these parameters."""
        shared = {"worker_id": worker_id, "hold": hold, "lease_id": leases.new_id()}
        parameters = {**shared, **limit_values(limits), **fence_values(fence), **values}
        found = await self.carry_out(rows(query, **parameters), On.CLAIMS, is_atomic=False)
        lease_id, until, until_id, held, at, refused = next(row[_WIDTH:] for row in found if row[_WIDTH] is not None)
        claims = tuple(Claim._make(row[:_WIDTH]) for row in found if row[0] is not None)
        lease = Lease(lease_id, claims, at) if claims else None
        return Claimed(lease, held, (until, until_id), None if refused is None else Refusal(refused))

    settled = staticmethod(settle)

    async def settle(self, results: Sequence[Result]) -> list[Verdict]:
        """See ClaimStore."""
        try:
            applied = await self.carry_out(write(results), On.RESULTS, is_atomic=False)
        except BadValue:
            if len(results) > 1:
                middle = len(results) // 2
                return await self.settle(results[:middle]) + await self.settle(results[middle:])
            # The one result whose texts the database refuses is written without them.
            applied = await self.carry_out(write(results, bare=True), On.RESULTS, is_atomic=False)
        rest = [result for place, result in enumerate(results) if place not in applied]
        judged = await self.carry_out(judge(rest), On.RESULTS, is_atomic=True) if rest else []
        return merged(len(results), applied, judged)

    def _look_from(self) -> tuple[datetime, int] | None:
        """Where to look from. While a backlog is worked off, entries left of the last claim are dead, and an old
        snapshot would make every claim walk over them; what was committed behind the mark is found by a full scan."""
        now = time.monotonic()
        if self.watermark is None or now - self._scanned_at >= FULL_SCAN_SECONDS:
            self._scanned_at = now
            return None
        return self.watermark

    async def _park_all(
        self, limits: Limits, rooms: Sequence[str | None], lease: Lease | None, spare: float = 0.0
    ) -> int:
        """Park what is in the way among the oldest due rows, or at the front of these rooms; how many were."""
        try:
            return sum([await self._park(limits, room, spare) for room in rooms])
        except StoreBusy:
            if lease is None:
                raise
            return 0  # what was leased is ours to send; what is to be parked is met again

    async def _park(self, limits: Limits, room: str | None, spare: float = 0.0) -> int:
        limit = self._parking if room is None else PARK_LIMIT
        return await self.carry_out(park(limits, room, limit, spare), On.CLAIMS, is_atomic=True)


def park(limits: Limits, room: str | None, limit: int, spare: float = 0.0) -> Steps[int]:
    """Park what must not be sent now among the oldest due rows, or at the front of a room; how many were."""
    found = yield from rows("lock_due" if room is None else "lock_waiting", limit=limit, room=room)
    [(parked,)] = yield from rows(
        "park",
        delivery_ids=[row[0] for row in found],
        destinations=limits.full,
        places=limits.full_places,
        room=room,
        live=None if limits.served is None else sorted(limits.served.live),
        spare=spare,
        **served_values(limits.served),
    )
    return int(parked)


def limit_values(limits: Limits) -> dict[str, object]:
    """Limits as the parameters of the claiming statements."""
    return {
        "each": limits.each,
        "each_place": limits.each_place,
        "destinations": array(list(limits.left)),
        "lefts": array(list(limits.left.values())),
        "places": array(list(limits.left_at_place)),
        "place_lefts": array(list(limits.left_at_place.values())),
        **served_values(limits.served),
    }


def served_values(served: Served | None) -> dict[str, object]:
    """What a worker serves as parameters of the same."""
    if served is None or served.is_all:
        return {"served": None, "beginnings": None}
    return {"served": array(sorted(served.names)) or "{}", "beginnings": array(served.beginnings)}
