"""What reconciliation writes and reads: deliveries in doubt, a person's attestation, and what is marked sent."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sendonce.domain.texts import CODE_LENGTH, ID_LENGTH, MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed, NotFound
from sendonce.sql.steps import Steps, records, rows
from sendonce.store.dead_letters import check_all_closed
from sendonce.store.deliveries import delivery_rows
from sendonce.store.filters import LAST, ids_of
from sendonce.store.losses import doubt_step
from sendonce.store.operations_log import log, said
from sendonce.store.records import ATTESTED, ROOM_CAP, Acted, DeliveryRow

# A row's time is that of its transaction's beginning, and others may have got lower ids since.
LONGEST_TRANSACTION = timedelta(hours=1)
# A step through what was completed looks at so many rows.
WINDOW = 1000


class CompletedStep(NamedTuple):
    """The newest generations among those that were looked at, by id; and after which id to go on, None at the end."""

    rows: list[DeliveryRow]
    next_after: int | None


class _Letter(NamedTuple):
    id: int
    delivery_id: int
    closed_as: str | None


class _LeftAlone(NamedTuple):
    amount: int
    until: datetime | None


class _Made(NamedTuple):
    id: int
    created_at: datetime


def doubt(after: int, limit: int, *, wait: timedelta, is_exact: bool = False) -> Steps[tuple[int, int | None]]:
    """Put up to `limit` open deliveries with ids above `after` in doubt, not due before `wait` is over.

    Nor, unless it `is_exact`, before the longer wait of its subscription's own policy is. Returns how many were
    changed, and the last id looked at; None when there are no more.
    """
    return (yield from doubt_step(after, LAST, limit, wait=wait, is_exact=is_exact))


def log_doubt(*, operator: str, reason: str, affected: int) -> Steps[int]:
    """Write into the operations log that a person has put open deliveries in doubt; the row's id."""
    acted = yield from log("doubt", operator, reason, (), subject="open deliveries", affected=affected)
    return acted.operation_id


def attest(
    dead_letter_ids: Sequence[int], *, operator: str, reason: str, notification_id: str | None = None
) -> Steps[Acted]:
    """Record that open dead letters were delivered, as a person says: the next generation of each, completed; its id.

    The dead letters are closed as attested. NotAllowed, and nothing written, when one is not open.
    """
    ids = list(dict.fromkeys(dead_letter_ids))
    deliveries = yield from _open_letters(ids)
    yield from rows("lock_deliveries", delivery_ids=deliveries)
    closed = yield from rows("close_attested", dead_letter_ids=ids, operator=said(operator))
    check_all_closed("attest", ids, [row[0] for row in closed])
    opened = yield from complete_next(deliveries, f"{operator}: {reason}", notification_id)
    logged = yield from log("attest", operator, reason, ids, subject="dead letter")
    return Acted(ids=tuple(opened), operation_id=logged.operation_id)


def complete_next(delivery_ids: Sequence[int], word: str, notification_id: str | None = None) -> Steps[list[int]]:
    """Open the next generation of each of these, completed on a person's word; the new ids in their order, as they are
    given out in it."""
    made = yield from rows("attest", delivery_ids=list(delivery_ids), notification_id=_named(notification_id))
    opened = sorted(ids_of(made))
    yield from _add_findings(opened, ATTESTED, word, None)
    return opened


def add_finding(delivery_id: int, *, kind: str, details: str, notification_id: str | None = None) -> Steps[bool]:
    """Write what reconciliation found; False when the same was found of it before."""
    return bool((yield from _add_findings([delivery_id], kind, details, notification_id)))


def _add_findings(
    delivery_ids: Sequence[int], kind: str, details: str, notification_id: str | None
) -> Steps[list[int]]:
    found = yield from rows(
        "add_findings",
        delivery_ids=list(delivery_ids),
        kind=clean(kind, CODE_LENGTH),
        details=clean(details, MESSAGE_LENGTH),
        notification_id=_named(notification_id),
    )
    return ids_of(found)


def left_alone() -> Steps[tuple[int, datetime | None]]:
    """Return how many deliveries in doubt may not be asked about yet (up to ROOM_CAP), and when all of these may be."""
    [found] = yield from records(_LeftAlone, "left_alone", cap=ROOM_CAP)
    return found.amount, found.until


def first_delivery_since(since: datetime) -> Steps[int]:
    """Return an id below which no delivery was made after `since`, found by halving."""
    newest = yield from rows("delivery_window", before=LAST, window=1)
    low, high = 1, newest[0][0] + 1 if newest else 1
    while low < high:
        middle = (low + high) // 2
        found = yield from records(_Made, "delivery_from", id=middle)
        if not found or found[0].created_at >= since - LONGEST_TRANSACTION:
            high = middle
        else:
            low = found[0].id + 1
    return low


def _open_letters(ids: Sequence[int]) -> Steps[list[int]]:
    """Return the deliveries of these dead letters, in their order."""
    found = {each.id: each for each in (yield from records(_Letter, "letters_to_attest", dead_letter_ids=list(ids)))}
    for each in ids:
        if each not in found:
            raise NotFound(f"there is no dead letter {each}")
        if found[each].closed_as is not None:
            raise NotAllowed(f"dead letter {each} was {found[each].closed_as} already")
    return [found[each].delivery_id for each in ids]


def _named(notification_id: str | None) -> str | None:
    return None if notification_id is None else clean(notification_id, ID_LENGTH)


def completed_after(after: int, *, since: datetime, limit: int) -> Steps[CompletedStep]:
    """Look in one bounded step for completed deliveries with ids above `after`, notified since then."""
    looked = yield from rows("completed_window", after=after, since=since, window=WINDOW)
    found = [delivery_id for delivery_id, is_wanted in looked if is_wanted][:limit]
    last = found if len(found) == limit else ids_of(looked) if len(looked) == WINDOW else []
    return CompletedStep((yield from delivery_rows(found))[::-1], last[-1] if last else None)
