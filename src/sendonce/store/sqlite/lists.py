"""Lists, newest first. They walk an index in bounded steps: ids first, then the rows of them that match."""

import json
from collections.abc import Iterator, Sequence

from sendonce.domain.deliveries import DeliveryState
from sendonce.store.filters import Filter
from sendonce.store.records import COUNT_CAP, DeadLetterRow, DeliveryRow, EventRow
from sendonce.store.sqlite.connection import Transaction, stamp
from sendonce.store.sqlite.rows import record

FIRST_WINDOW = 500
WINDOW = 20_000
LAST = 2**63 - 1
ALL = Filter(limit=WINDOW)


def events(transaction: Transaction, wanted: Filter) -> list[EventRow]:
    found: list[EventRow] = []
    for ids in walk(transaction, "event_window"):
        found += event_rows(transaction, ids, wanted)
        if len(found) >= wanted.limit or _is_past(wanted, event_rows(transaction, ids[-1:], ALL)):
            break
    return found[: wanted.limit]


def event_rows(transaction: Transaction, ids: Sequence[int], wanted: Filter) -> list[EventRow]:
    return [record(EventRow, row) for row in transaction.fetch("event_rows", _values(ids, wanted))]


def deliveries(transaction: Transaction, wanted: Filter) -> list[DeliveryRow]:
    found: list[DeliveryRow] = []
    for ids in _delivery_windows(transaction, wanted.status):
        found += delivery_rows(transaction, ids, wanted)
        if len(found) >= wanted.limit or _is_past(wanted, delivery_rows(transaction, ids[-1:], ALL)):
            break
    return found[: wanted.limit]


def delivery_rows(transaction: Transaction, ids: Sequence[int], wanted: Filter) -> list[DeliveryRow]:
    return [record(DeliveryRow, row) for row in transaction.fetch("delivery_rows", _values(ids, wanted))]


def delivery_by_token(transaction: Transaction, token: str) -> DeliveryRow | None:
    namespace = transaction.fetch("namespace")[0][0]
    for ids in walk(transaction, "delivery_window"):
        values = {"ids": json.dumps(ids), "namespace": namespace, "token": token}
        for row in transaction.fetch("delivery_ids_of_token", values):
            return delivery_rows(transaction, [row[0]], ALL)[0]
    return None


def dead_letters(transaction: Transaction, wanted: Filter) -> list[DeadLetterRow]:
    """The open ones, in the order in which they were given up."""
    found: list[DeadLetterRow] = []
    before = {"before_at": LAST, "before_id": LAST}
    window = FIRST_WINDOW
    while rows := transaction.fetch("open_dead_letter_window", {**before, "window": window}):
        found += dead_letter_rows(transaction, [row[0] for row in rows], wanted)
        last_id, last_at = rows[-1]
        if len(found) >= wanted.limit or (wanted.since is not None and last_at < stamp(wanted.since)):
            break
        before = {"before_at": last_at, "before_id": last_id}
        window = WINDOW
    return found[: wanted.limit]


def dead_letter_rows(transaction: Transaction, ids: Sequence[int], wanted: Filter) -> list[DeadLetterRow]:
    rows = transaction.fetch("dead_letter_rows", _values(ids, wanted))
    return [record(DeadLetterRow, row) for row in rows]


def walk(transaction: Transaction, query: str, before: int | None = None) -> Iterator[list[int]]:
    """Ids from the newest down, a window at a time; the first one small, because most lists end there."""
    before, window = LAST if before is None else before, FIRST_WINDOW
    while rows := transaction.fetch(query, {"before": before, "window": window}):
        yield [row[0] for row in rows]
        before, window = rows[-1][0], WINDOW


def _delivery_windows(transaction: Transaction, status: object) -> Iterator[list[int]]:
    """Where deliveries of this state are to be found without looking at all the others."""
    if status is DeliveryState.IN_PROGRESS:
        yield [row[0] for row in transaction.fetch("in_flight_ids", {"window": COUNT_CAP})]
    elif status is DeliveryState.DEAD_LETTERED:
        yield from walk(transaction, "dead_letter_window")
    elif status in (DeliveryState.PENDING, DeliveryState.PENDING_RETRY):
        yield from _open_windows(transaction)
    else:
        yield from walk(transaction, "delivery_window")


def _open_windows(transaction: Transaction) -> Iterator[list[int]]:
    """What waits has indexes by due time and by what it is parked on. A long backlog is quicker to meet by walking."""
    window = {"window": WINDOW}
    ids = [row[0] for query in ("due_window", "parked_window") for row in transaction.fetch(query, window)]
    if len(ids) < WINDOW:
        yield sorted(ids, reverse=True)
    else:
        yield from walk(transaction, "delivery_window")


def _is_past(wanted: Filter, oldest: Sequence[EventRow] | Sequence[DeliveryRow]) -> bool:
    """True when a walk has come to what is older than anybody wants to see."""
    return wanted.since is not None and any(row.created_at < wanted.since for row in oldest)


def _values(ids: Sequence[int], wanted: Filter) -> dict[str, object]:
    return {
        "ids": json.dumps(ids),
        "status": None if wanted.status is None else wanted.status.value,
        "type": wanted.type,
        "destination": wanted.destination,
        "tenant": wanted.tenant,
        "since": None if wanted.since is None else stamp(wanted.since),
        "reason": None if wanted.reason is None else wanted.reason.value,
        "limit": wanted.limit,
    }
