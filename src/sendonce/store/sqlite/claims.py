"""Claims: what may be sent now is leased, what may not is parked. Written for this database: hot, and its own shape."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sendonce.domain.attempts import NO_FENCE, Claim, Fence, Lease
from sendonce.domain.holds import Candidate, Holders, parked, sendable
from sendonce.domain.limits import NO_LIMITS, Limits
from sendonce.domain.serving import Served
from sendonce.sql.steps import Steps, records, rows
from sendonce.store import leases
from sendonce.store.losses import refusal
from sendonce.store.ports import Started

FRONT = 20
PARK_LIMIT = 2000


class _Ready(NamedTuple):
    """A row that may be claimed, and its subscription's rate."""

    claim: Claim
    rate: float | None

    @property
    def candidate(self) -> Candidate:
        """What the rule looks at of it."""
        claim = self.claim
        return Candidate(
            claim.delivery_id,
            claim.destination,
            claim.address,
            claim.tenant,
            claim.subscription_id,
            claim.subscription_state,
            claim.is_proven,
            self.rate,
        )


class _Front(NamedTuple):
    """A row that may have to be parked, and for how long it has been due."""

    candidate: Candidate
    due_for: timedelta | None


class _Opened(NamedTuple):
    at: datetime


def start(
    worker_id: int, limit: int, hold: timedelta, limits: Limits = NO_LIMITS, fence: Fence = NO_FENCE
) -> Steps[Started]:
    """See ClaimStore."""
    if refused := (yield from refusal(fence)):
        return Started(None, refused=refused)
    holders = yield from _holders()
    # A limit below zero would be no limit at all.
    if limit < 1 or holders.is_all_stopped:
        return Started(None)
    found = yield from records(_Ready, "claim_due", limit=limit)
    claims = _sendable(found, holders, limits, None)
    lease = yield from _open_lease(worker_id, claims, hold)
    held = len(found) - len(claims)
    if not held:
        return Started(lease)
    # What a live worker serves is left to it for a moment, unless most of what is due is in the way here.
    spare = limits.served.spare if limits.served and held <= limit // 2 else 0.0
    return Started(lease, (yield from _park(holders, limits.after(claims), None, spare=spare)))


def start_waiting(
    worker_id: int,
    quotas: Mapping[str, int],
    hold: timedelta,
    limits: Limits = NO_LIMITS,
    fence: Fence = NO_FENCE,
    *,
    probes: Mapping[str, float] | None = None,
) -> Steps[Started]:
    """See ClaimStore."""
    if refused := (yield from refusal(fence)):
        return Started(None, refused=refused)
    holders = yield from _holders()
    if holders.is_all_stopped:
        return Started(None)
    claims: list[Claim] = []
    blocked = []
    for room, quota in quotas.items():
        found = yield from _least_tried(room, max(quota, 0), (probes or {}).get(room))
        claimed = _sendable(found, holders, limits, room)
        claims, limits = claims + claimed, limits.after(claimed)
        if len(claimed) < len(found):
            blocked.append(room)
    lease = yield from _open_lease(worker_id, claims, hold)
    amount = 0
    for room in blocked:
        amount += yield from _park(holders, limits, room)
    return Started(lease, amount)


def start_doubtful(
    worker_id: int,
    limit: int,
    hold: timedelta,
    *,
    after: int,
    served: Served | None = None,
    fence: Fence = NO_FENCE,
) -> Steps[Started]:
    """See ClaimStore. Asking is not sending: a rate or a breaker holds nothing back here, a stop or a pause does."""
    if refused := (yield from refusal(fence)):
        return Started(None, refused=refused)
    holders = (yield from _holders())._replace(breakers=frozenset())
    if limit < 1 or holders.is_all_stopped:
        return Started(None)
    while found := (yield from records(_Ready, "claim_doubtful", after=after, limit=limit)):
        claims = _sendable([each._replace(rate=None) for each in found], holders, Limits(served=served), None)
        if claims:
            return Started((yield from _open_lease(worker_id, claims, hold)))
        after = found[-1].claim.delivery_id
    return Started(None)


def park_unserved(room: str, served: Served) -> Steps[int]:
    """See ClaimStore."""
    return (yield from _park((yield from _holders()), Limits(served=served), room))


def _holders() -> Steps[Holders]:
    stops = yield from rows("stops")
    breakers = yield from rows("breakers")
    return Holders([row[:2] for row in stops], frozenset(name for (name,) in breakers))


def _sendable(found: Sequence[_Ready], holders: Holders, limits: Limits, room: str | None) -> list[Claim]:
    return [found[place].claim for place in sendable([each.candidate for each in found], holders, limits, room)]


def _least_tried(room: str, quota: int, part: float | None) -> Steps[list[_Ready]]:
    """So many of those at the front of a room, so that one that always fails is not what every probe is made with.

    A probe looks at those from this part of the room on too.
    """
    front = yield from records(_Ready, "claim_waiting", room=room, from_id=0, limit=max(quota, FRONT))
    if part is not None:
        [(first, last)] = yield from rows("room_bounds", room=room)
        from_id = 0 if first is None else first + int(part * (last - first))
        front = (yield from records(_Ready, "claim_waiting", room=room, from_id=from_id, limit=FRONT)) + front
    return sorted(front, key=lambda each: each.claim.attempt_count)[:quota]


def _open_lease(worker_id: int, claims: Sequence[Claim], hold: timedelta) -> Steps[Lease | None]:
    """Lease these in the name of a worker: attempts are opened, deliveries in progress."""
    if not claims:
        return None
    ids = [claim.delivery_id for claim in claims]
    lease_id = leases.new_id()
    [opened] = yield from records(_Opened, "open_lease", lease_id=lease_id, worker_id=worker_id, hold=hold, ids=ids)
    yield from rows("open_attempts", lease_id=lease_id, ids=ids)
    yield from rows("mark_in_progress", ids=ids)
    return Lease(lease_id, tuple(claims), opened.at)


def _park(holders: Holders, limits: Limits, room: str | None, *, spare: float = 0.0) -> Steps[int]:
    """Park what must not be sent now among the oldest due rows, or at the front of a room; how many were.

    What has been due for less than `spare` seconds is left to a live worker that serves it.
    """
    query = "front_due" if room is None else "front_waiting"
    found = yield from records(_Front, query, limit=PARK_LIMIT, room=room)
    patience = timedelta(seconds=spare)
    holds = []
    for candidate, due_for in found:
        is_old = due_for is not None and due_for >= patience
        if hold := parked(candidate, holders, limits, room, is_old=is_old):
            holds.append((candidate.delivery_id, hold.room))
    if holds:
        yield from rows("park", parked=holds)
    return len(holds)
