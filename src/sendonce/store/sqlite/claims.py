"""Claims: what may be sent now is leased, what may not is parked. Written for this database: hot, and its own shape."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from sendonce.domain.attempts import NO_FENCE, Claim, Fence, Lease, Result, Verdict
from sendonce.domain.destinations import place_of, scheme_of
from sendonce.domain.limits import NO_LIMITS, Limits, has_host
from sendonce.domain.serving import Served, bare
from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.sql.steps import Row
from sendonce.store import leases
from sendonce.store.bulk import OperationRow
from sendonce.store.losses import refusal
from sendonce.store.ports import Started
from sendonce.store.records import Acted
from sendonce.store.sqlite.bulk import take_step
from sendonce.store.sqlite.connection import OwnConnection, Transaction, microseconds, moment
from sendonce.store.sqlite.journal import log_operation
from sendonce.store.sqlite.settle import settle

FRONT = 20
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
_TRIED = Claim._fields.index("attempt_count")


class Claims:
    """See `OrchestratorStore`."""

    _writer: OwnConnection

    async def start(
        self, worker_id: int, limit: int, hold: timedelta, limits: Limits = NO_LIMITS, fence: Fence = NO_FENCE
    ) -> Started:
        return await self._writer.run(_start, worker_id, limit, hold, limits, fence)

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
        return await self._writer.run(_start_waiting, worker_id, quotas, hold, limits, fence, probes or {})

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
        return await self._writer.run(_start_doubtful, worker_id, limit, hold, after, Limits(served=served), fence)

    async def park_unserved(self, room: str, served: Served) -> int:
        return await self._writer.run(_park_unserved, room, served)

    async def give_up_unserved(self, room: str, after: int, limit: int, *, message: str) -> tuple[int, int | None]:
        return await self._writer.run(_give_up_unserved, room, after, limit, message)

    async def settle(self, results: Sequence[Result]) -> list[Verdict]:
        return await self._writer.run(settle, results) if results else []

    async def cancel(self, delivery_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        return await self._writer.run(_cancel, delivery_ids, operator, reason)

    async def cancel_step(self, operation_id: int, *, window: int, most: int) -> OperationRow:
        return await self._writer.run(take_step, operation_id, window, most, _cancel_found)


def claim_of(row: Row) -> Claim:
    """A claim from the columns of `claim_due`."""
    return Claim._make((*row[:13], moment(row[13]), *row[14:22], row[22] == 1, row[23] == 1, *row[24:28]))


def _start(
    transaction: Transaction, worker_id: int, limit: int, hold: timedelta, limits: Limits, fence: Fence
) -> Started:
    if refused := transaction.carry_out(refusal(fence)):
        return Started(None, refused=refused)
    holders = Holders.now(transaction)
    # A limit below zero would be no limit at all.
    if limit < 1 or holders.is_all_stopped:
        return Started(None)
    rows = transaction.fetch("claim_due", {"limit": limit})
    good = sendable(rows, holders, limits, None)
    claims = tuple([claim_of(row) for row in good])
    lease = open_lease(transaction, worker_id, claims, hold)
    held = len(rows) - len(good)
    if not held:
        return Started(lease)
    # What a live worker serves is left to it for a moment, unless most of what is due is in the way here.
    spare = limits.served.spare if limits.served and held <= limit // 2 else 0.0
    return Started(lease, park(transaction, holders, limits.after(claims), None, spare=spare))


def _start_waiting(
    transaction: Transaction,
    worker_id: int,
    quotas: Mapping[str, int],
    hold: timedelta,
    limits: Limits,
    fence: Fence,
    probes: Mapping[str, float],
) -> Started:
    if refused := transaction.carry_out(refusal(fence)):
        return Started(None, refused=refused)
    holders = Holders.now(transaction)
    if holders.is_all_stopped:
        return Started(None)
    claims: tuple[Claim, ...] = ()
    blocked = []
    for room, quota in quotas.items():
        front = transaction.fetch("claim_waiting", {"room": room, "from_id": 0, "limit": max(quota, FRONT)})
        if room in probes:
            front = _at(transaction, room, probes[room]) + front
        # The least tried of them, so that one that always fails is not what every probe is made with.
        rows = sorted(front, key=lambda row: row[_TRIED])[: max(quota, 0)]
        good = sendable(rows, holders, limits, room)
        claimed = tuple([claim_of(row) for row in good])
        claims, limits = claims + claimed, limits.after(claimed)
        if len(good) < len(rows):
            blocked.append(room)
    lease = open_lease(transaction, worker_id, claims, hold)
    return Started(lease, sum([park(transaction, holders, limits, room) for room in blocked]))


def _start_doubtful(
    transaction: Transaction, worker_id: int, limit: int, hold: timedelta, after: int, limits: Limits, fence: Fence
) -> Started:
    """Asking is not sending: a rate or a breaker holds nothing back here, a stop or a pause does."""
    if refused := transaction.carry_out(refusal(fence)):
        return Started(None, refused=refused)
    holders = Holders.now(transaction)._replace(breakers=frozenset())
    if limit < 1 or holders.is_all_stopped:
        return Started(None)
    while rows := transaction.fetch("claim_doubtful", {"after": after, "limit": limit}):
        good = sendable([(*row[:-1], None) for row in rows], holders, limits, None)
        if good:
            return Started(open_lease(transaction, worker_id, [claim_of(row) for row in good], hold))
        after = rows[-1][0]
    return Started(None)


def _at(transaction: Transaction, room: str, part: float) -> list[Row]:
    """Some of a room's rows from this part of it on."""
    first, last = transaction.fetch("room_bounds", {"room": room})[0]
    from_id = 0 if first is None else first + int(part * (last - first))
    return transaction.fetch("claim_waiting", {"room": room, "from_id": from_id, "limit": FRONT})


def _park_unserved(transaction: Transaction, room: str, served: Served) -> int:
    return park(transaction, Holders.now(transaction), Limits(served=served), room)


def _give_up_unserved(
    transaction: Transaction, room: str, after: int, limit: int, message: str
) -> tuple[int, int | None]:
    name = bare(room.partition(":")[2])
    rows = transaction.fetch("unserved", {"room": room, "name": name, "after": after, "limit": limit})
    due = [row[0] for row in rows if row[2]]
    over = [row[0] for row in rows if row[1] and not row[2]]
    if due:
        transaction.change("make_due", {"ids": json.dumps(due)})
    if over:
        transaction.change("give_up_unserved", {"ids": json.dumps(over)})
        transaction.change("add_unserved", {"ids": json.dumps(over), "message": message})
        transaction.change("count", {"name": "dead_lettered", "amount": len(over)})
    return len(over), rows[-1][0] if len(rows) == limit else None


def open_lease(transaction: Transaction, worker_id: int, claims: Sequence[Claim], hold: timedelta) -> Lease | None:
    """Lease these in the name of a worker: attempts are opened, deliveries in progress."""
    if not claims:
        return None
    ids = json.dumps([claim.delivery_id for claim in claims])
    expires_at = transaction.now + microseconds(hold)
    lease_id = leases.new_id()
    values = {"lease_id": lease_id, "worker_id": worker_id, "expires_at": expires_at, "ids": ids}
    transaction.change("open_lease", values)
    transaction.change("open_attempts", {"lease_id": lease_id, "ids": ids})
    transaction.change("mark_in_progress", {"ids": ids})
    return Lease(lease_id, tuple(claims), moment(transaction.now))


def _cancel(transaction: Transaction, delivery_ids: Sequence[int], operator: str, reason: str) -> Acted:
    ids = _give_up(transaction, delivery_ids, reason)
    return log_operation(transaction, "cancel", operator, reason, ids, subject="delivery")


def _cancel_found(transaction: Transaction, operation: OperationRow, ids: Sequence[int]) -> int:
    return len(_give_up(transaction, ids, operation.reason or ""))


def _give_up(transaction: Transaction, delivery_ids: Sequence[int], reason: str) -> list[int]:
    """Cancel those that wait, in whatever transaction this is; their ids."""
    rows = transaction.fetch("cancel", {"delivery_ids": json.dumps(list(delivery_ids))})
    ids = sorted(row[0] for row in rows)
    if ids:
        values = {"delivery_ids": json.dumps(ids), "reason": clean(reason, MESSAGE_LENGTH)}
        transaction.change("add_cancelled", values)
        transaction.change("count", {"name": "dead_lettered", "amount": len(ids)})
    return ids


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
