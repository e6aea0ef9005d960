"""What reconciliation asks of the database: deliveries in doubt, a person's attestation, and what is marked sent."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from sendonce.domain.attempts import NO_FENCE, Fence
from sendonce.domain.limits import Limits
from sendonce.domain.serving import Served
from sendonce.domain.texts import ID_LENGTH, MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.filters import Filter
from sendonce.store.ports import Started
from sendonce.store.records import ATTESTED, ROOM_CAP, Acted, DeliveryRow
from sendonce.store.sqlite import lists
from sendonce.store.sqlite.holding import Holders, sendable
from sendonce.store.sqlite.journal import log_operation
from sendonce.store.sqlite.lanes import Lane, Transaction
from sendonce.store.sqlite.losses import doubt_step, refusal
from sendonce.store.sqlite.orchestrating import claim_of, open_lease
from sendonce.store.sqlite.times import moment, stamp

WINDOW = 1000
# As on PostgreSQL: a clock may have been set back a little, too.
LONGEST_TRANSACTION = timedelta(hours=1)


class Reconciling:
    """See `OrchestratorStore`, `OperatorStore` and `ReadStore`."""

    _writer: Lane
    _reader: Lane

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

    async def doubt(self, after: int, limit: int, *, wait: timedelta, is_exact: bool = False) -> tuple[int, int | None]:
        return await self._writer.run(_doubt, after, limit, wait, is_exact)

    async def log_doubt(self, *, operator: str, reason: str, affected: int) -> int:
        return await self._writer.run(_log_doubt, operator, reason, affected)

    async def attest(
        self, dead_letter_ids: Sequence[int], *, operator: str, reason: str, notification_id: str | None = None
    ) -> Acted:
        return await self._writer.run(_attest, dead_letter_ids, operator, reason, notification_id)

    async def add_finding(
        self, delivery_id: int, *, kind: str, details: str, notification_id: str | None = None
    ) -> bool:
        return await self._writer.run(_find, delivery_id, kind, details, notification_id)

    async def completed_after(self, after: int, *, since: datetime, limit: int) -> list[DeliveryRow]:
        return await self._reader.run(_completed_after, after, since, limit)

    async def left_alone(self) -> tuple[int, datetime | None]:
        amount, until = (await self._reader.run(Transaction.fetch, "left_alone", {"cap": ROOM_CAP}))[0]
        return amount, None if until is None else moment(until)

    async def first_delivery_since(self, since: datetime) -> int:
        return await self._reader.run(_first_delivery_since, since)


def _start_doubtful(
    transaction: Transaction, worker_id: int, limit: int, hold: timedelta, after: int, limits: Limits, fence: Fence
) -> Started:
    """Asking is not sending: a rate or a breaker holds nothing back here, a stop or a pause does."""
    if refused := refusal(transaction, fence):
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


def _doubt(transaction: Transaction, after: int, limit: int, wait: timedelta, is_exact: bool) -> tuple[int, int | None]:
    last = transaction.fetch("last_of_step", {"after": after, "upto": lists.LAST, "limit": limit})[0][0]
    step = {"after": after, "last": last, "wait": wait.total_seconds(), "loss_id": None}
    return (0, None) if last is None else (doubt_step(transaction, step, is_exact=is_exact), last)


def _log_doubt(transaction: Transaction, operator: str, reason: str, affected: int) -> int:
    values = {
        "kind": "doubt",
        "operator": clean(operator, MESSAGE_LENGTH),
        "reason": clean(reason, MESSAGE_LENGTH),
        "subject": "open deliveries",
        "affected": affected,
    }
    return int(transaction.fetch("log_operation", values)[0][0])


def _attest(
    transaction: Transaction, dead_letter_ids: Sequence[int], operator: str, reason: str, notification_id: str | None
) -> Acted:
    ids = list(dict.fromkeys(dead_letter_ids))
    opened = []
    for delivery_id in _open_letters(transaction, ids):
        values = {"delivery_id": delivery_id, "notification_id": _named(notification_id)}
        opened.append(int(transaction.fetch("attest", values)[0][0]))
        _find(transaction, opened[-1], ATTESTED, f"{operator}: {reason}", None)
    closing = {"dead_letter_ids": json.dumps(ids), "operator": clean(operator, MESSAGE_LENGTH)}
    transaction.fetch("close_attested", closing)
    log = log_operation(transaction, "attest", operator, reason, ids, subject="dead letter")
    return Acted(ids=tuple(opened), operation_id=log.operation_id)


def _open_letters(transaction: Transaction, ids: Sequence[int]) -> list[int]:
    """The deliveries of these dead letters, in their order."""
    rows = transaction.fetch("letters_to_attest", {"dead_letter_ids": json.dumps(list(ids))})
    found = {row[0]: row[1:] for row in rows}
    for each in ids:
        if each not in found:
            raise NotFound(f"there is no dead letter {each}")
        if found[each][1] is not None:
            raise NotAllowed(f"dead letter {each} was {found[each][1]} already")
    return [found[each][0] for each in ids]


def _find(transaction: Transaction, delivery_id: int, kind: str, details: str, notification_id: str | None) -> bool:
    values = {
        "delivery_id": delivery_id,
        "kind": kind,
        "details": clean(details, MESSAGE_LENGTH),
        "notification_id": _named(notification_id),
    }
    return bool(transaction.fetch("add_finding", values))


def _completed_after(transaction: Transaction, after: int, since: datetime, limit: int) -> list[DeliveryRow]:
    found: list[int] = []
    values = {"since": stamp(since), "window": WINDOW}
    while len(found) < limit:
        rows = transaction.fetch("completed_window", {**values, "after": after})
        if not rows:
            break
        found += [delivery_id for delivery_id, is_wanted in rows if is_wanted]
        after = rows[-1][0]
    return lists.delivery_rows(transaction, found[:limit], Filter(limit=limit))[::-1]


def _first_delivery_since(transaction: Transaction, since: datetime) -> int:
    newest = transaction.fetch("delivery_window", {"before": lists.LAST, "window": 1})
    low, high = 1, newest[0][0] + 1 if newest else 1
    while low < high:
        middle = (low + high) // 2
        rows = transaction.fetch("delivery_from", {"id": middle})
        if not rows or moment(rows[0][1]) >= since - LONGEST_TRANSACTION:
            high = middle
        else:
            low = rows[0][0] + 1
    return low


def _named(notification_id: str | None) -> str | None:
    return None if notification_id is None else clean(notification_id, ID_LENGTH)
