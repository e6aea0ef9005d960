"""start and cancel; settle is in settling.py. Together the only statements that change a delivery's state."""

import json
from collections.abc import Sequence
from datetime import timedelta

from sendonce.domain.attempts import Claim, Lease, Result, Verdict
from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.stores.ports import Started
from sendonce.stores.records import Acted
from sendonce.stores.sqlite.journal import log_operation
from sendonce.stores.sqlite.lanes import Lane, Row, Transaction
from sendonce.stores.sqlite.settling import settle
from sendonce.stores.sqlite.times import microseconds, moment

PARK_LIMIT = 1000
PARK_ROUNDS = 5
_STATE = Claim._fields.index("subscription_state")
_HELD = ("paused", "disabled")


class Orchestrating:
    """See `OrchestratorStore`."""

    _writer: Lane

    async def start(self, worker_id: int, limit: int, hold: timedelta) -> Started:
        return await self._writer.run(_start, worker_id, limit, hold)

    async def settle(self, results: Sequence[Result]) -> list[Verdict]:
        return await self._writer.run(settle, results) if results else []

    async def cancel(self, delivery_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        return await self._writer.run(_cancel, delivery_ids, operator, reason)


def claim_of(row: Row) -> Claim:
    """A claim from the columns of `claim_due`."""
    return Claim._make((*row[:13], moment(row[13]), *row[14:22], row[22] == 1, row[23] == 1, row[24], row[25]))


def _start(transaction: Transaction, worker_id: int, limit: int, hold: timedelta) -> Started:
    stops = transaction.fetch("stops")
    # A limit below zero would be no limit at all.
    if limit < 1 or any(scope == "all" for scope, *_ in stops):
        return Started(None)
    rows, parked = _sendable(transaction, limit, suspicious=bool(stops))
    if not rows:
        return Started(None, parked)
    ids = json.dumps([row[0] for row in rows])
    expires_at = transaction.now + microseconds(hold)
    lease_id = transaction.fetch("open_lease", {"worker_id": worker_id, "expires_at": expires_at, "ids": ids})[0][0]
    transaction.change("open_attempts", {"lease_id": lease_id, "ids": ids})
    transaction.change("mark_in_progress", {"ids": ids})
    return Started(Lease(lease_id, tuple([claim_of(row) for row in rows])), parked)


def _sendable(transaction: Transaction, limit: int, *, suspicious: bool) -> tuple[list[Row], int]:
    """Due rows that may be sent, after parking those in front of them that may not; and how many those were.

    Only while something is stopped or paused are due rows looked at one by one.
    """
    parked = 0
    for _ in range(PARK_ROUNDS):
        if suspicious:
            found = transaction.change("park", {"limit": max(limit, PARK_LIMIT)})
            parked += found
            if found:
                continue
        rows = transaction.fetch("claim_due", {"limit": limit})
        if suspicious or not any(row[_STATE] in _HELD for row in rows):
            return rows, parked
        suspicious = True
    return [], parked


def _cancel(transaction: Transaction, delivery_ids: Sequence[int], operator: str, reason: str) -> Acted:
    rows = transaction.fetch("cancel", {"delivery_ids": json.dumps(list(delivery_ids))})
    ids = sorted(row[0] for row in rows)
    if ids:
        values = {"delivery_ids": json.dumps(ids), "reason": clean(reason, MESSAGE_LENGTH)}
        transaction.change("add_cancelled", values)
        transaction.change("count", {"name": "dead_lettered", "amount": len(ids)})
    return log_operation(transaction, "cancel", operator, reason, ids, subject="delivery")
