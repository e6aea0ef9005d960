"""start and cancel; settle is in settling.py. Together the only statements that change a delivery's state."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

from sendonce.domain.attempts import NO_FENCE, Claim, Fence, Lease, Result, Verdict
from sendonce.domain.limits import NO_LIMITS, Limits
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
from sendonce.store.sqlite.holding import Holders, park, sendable
from sendonce.store.sqlite.journal import log_operation
from sendonce.store.sqlite.settling import settle

FRONT = 20
_TRIED = Claim._fields.index("attempt_count")


class Orchestrating:
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
    return Claim._make((*row[:13], moment(row[13]), *row[14:22], row[22] == 1, row[23] == 1, *row[24:27]))


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
