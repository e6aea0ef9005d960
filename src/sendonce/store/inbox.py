"""The inbox as people see it: messages that were not handled at once, their tries, receipts, and what is decided."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from sendonce.domain.deliveries import DeliveryState
from sendonce.errors import NotAllowed, NotFound
from sendonce.sql.steps import Steps, one, records, rows
from sendonce.store.filters import LAST, SHOWN_OF_ONE, Page, look, narrow, tail, walk
from sendonce.store.operations_log import log, said
from sendonce.store.records import COUNT_CAP, Acted, InboxCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """A message at a consumer: one generation of it. `begun` and `finished` count its tries, `sightings` how often it
    came from outside."""

    id: int
    consumer: str
    message_id: str | None
    generation: int
    status: DeliveryState
    reason: str | None
    source: str
    source_position: str | None
    begun: int
    finished: int
    sightings: int
    created_at: datetime
    seen_at: datetime
    next_attempt_at: datetime | None
    ended_at: datetime | None
    error_code: str | None
    error_message: str | None
    closed_at: datetime | None
    closed_as: str | None
    closed_by: str | None
    content_gone_at: datetime | None
    content_type: str | None
    trace: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TryRow:
    """One try of a message; without an outcome it is being made, or its process died at it."""

    number: int
    begun_at: datetime
    finished_at: datetime | None
    outcome: str | None
    error_code: str | None
    error_message: str | None
    worker: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRow:
    """A consumer has handled this message. `seen_at`: when it last came again, `duplicates` times so far."""

    consumer: str
    message_id: str
    received_at: datetime
    seen_at: datetime | None
    duplicates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Match everything that is set. `dead`: only those that were given up and wait for a person."""

    consumer: str | None = None
    message_id: str | None = None
    source: str | None = None
    status: DeliveryState | None = None
    reason: str | None = None
    dead: bool = False
    since: datetime | None = None
    before: int | None = None
    limit: int = 50

    @property
    def criteria(self) -> dict[str, object]:
        """Return the values that the queries compare with."""
        kept = asdict(self)
        for name in ("before", "limit"):
            del kept[name]
        return {**kept, "status": None if self.status is None else self.status.value}


class InboxReads(Protocol):
    """What people see of the inbox."""

    async def messages(self, wanted: MessageFilter) -> Page[MessageRow]:
        """List the messages that were not handled at once, the newest first."""
        ...

    async def message(self, row_id: int) -> MessageRow | None: ...

    async def tries_of(self, row_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE) -> Page[TryRow]:
        """Return the newest tries of one generation of a message, the first of them first."""
        ...

    async def receipts_of(self, message_id: str, *, after: str = "", limit: int = SHOWN_OF_ONE) -> list[ReceiptRow]:
        """List the receipts of a message, by consumer. `after`: the last consumer of the list before."""
        ...

    async def inbox_counts(self) -> InboxCounts: ...


class InboxStore(Protocol):
    """What people decide about it. Every action is a row in the operations log."""

    async def retry_messages(self, row_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        """Open the next generation of dead messages, due now; the new ids. All or none."""
        ...

    async def discard_messages(self, row_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        """Close dead messages for good, and give up those that wait. All or none."""
        ...

    async def erase_message(self, message_id: str, *, operator: str, reason: str) -> Acted:
        """Take away what is kept of a message's content, and what its handlers have said; close what was dead."""
        ...


def messages(wanted: MessageFilter) -> Steps[Page[MessageRow]]:
    """List the messages that were not handled at once, the newest first."""

    def matching(ids: list[int], limit: int) -> Steps[list[MessageRow]]:
        return records(MessageRow, "message_rows", ids=ids, limit=limit, **wanted.criteria)

    window = walk("message_window")
    if wanted.message_id is not None:
        window = yield from narrow("message_window", "message_ids_called", message_id=wanted.message_id)
    elif wanted.dead:
        window = yield from narrow("message_window", "dead_message_ids")
    return (yield from look(wanted, window, matching, "message_at"))


def message(row_id: int) -> Steps[MessageRow | None]:
    """Return one generation of a message; None when there is none."""
    return one(MessageRow, "message_rows", ids=[row_id], limit=1, **MessageFilter().criteria)


def tries_of(row_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE) -> Steps[Page[TryRow]]:
    """Return the newest tries of one generation of a message with numbers below `before`, the first of them first."""
    values = {"id": row_id, "before": LAST if before is None else before}
    return tail(TryRow, "tries_of", lambda each: (each.number, each.begun_at), limit, **values)


def receipts_of(message_id: str, *, after: str = "", limit: int = SHOWN_OF_ONE) -> Steps[list[ReceiptRow]]:
    """List the receipts of a message, by consumer. `after`: the last consumer of the list before."""
    return records(ReceiptRow, "receipts_of", message_id=message_id, after=after, limit=limit)


def inbox_counts(cap: int = COUNT_CAP) -> Steps[InboxCounts]:
    """Count each along its own index, up to the cap."""
    [counts] = yield from records(InboxCounts, "inbox_counts", cap=cap)
    return counts


def retry_messages(row_ids: Sequence[int], *, operator: str, reason: str) -> Steps[Acted]:
    """Open the next generation of dead messages, due now; the new ids. All or none."""
    ids = sorted(set(row_ids))
    for each in (yield from _locked(ids)):
        if each.status is not DeliveryState.DEAD_LETTERED:
            raise NotAllowed(f"message {each.id} is {each.status}; only a dead one can be tried again")
        _check_open(each)
        if each.reason == "malformed":
            raise NotAllowed(f"message {each.id} has no usable id or content; correct it where it comes from")
        if each.content_gone_at is not None:
            raise NotAllowed(f"the content of message {each.id} is no longer kept; have it sent again")
        known = yield from receipts_of(str(each.message_id))
        if any(receipt.consumer == each.consumer for receipt in known):
            raise NotAllowed(f"{each.consumer} has handled message {each.id} since; discard it instead")
    yield from rows("close_messages", ids=ids, closed_as="retried", operator=said(operator))
    opened = [row[0] for row in (yield from rows("reopen_messages", ids=ids))]
    return replace((yield from log("retry", operator, reason, ids, subject="messages")), ids=tuple(opened))


def discard_messages(row_ids: Sequence[int], *, operator: str, reason: str) -> Steps[Acted]:
    """Close dead messages for good, and give up those that wait. All or none."""
    ids = sorted(set(row_ids))
    waiting = []
    for each in (yield from _locked(ids)):
        if each.status in (DeliveryState.PENDING, DeliveryState.PENDING_RETRY):
            waiting.append(each.id)
        elif each.status is not DeliveryState.DEAD_LETTERED:
            raise NotAllowed(f"message {each.id} is {each.status}; only one that waits or is dead can be discarded")
        _check_open(each)
    yield from rows("cancel_messages", ids=waiting)
    yield from rows("close_messages", ids=ids, closed_as="discarded", operator=said(operator))
    return (yield from log("discard", operator, reason, ids, subject="messages"))


def erase_message(message_id: str, *, operator: str, reason: str) -> Steps[Acted]:
    """Take away what is kept of a message's content, and what its handlers have said; close what was dead."""
    ids = yield from _ids_called(message_id)
    found = yield from _locked(ids)
    if busy := [each.id for each in found if each.status is DeliveryState.IN_PROGRESS]:
        raise NotAllowed(f"message {busy[0]} is being handled; erase it when that is over")
    waiting = [each.id for each in found if each.ended_at is None]
    dead = [each.id for each in found if each.closed_at is None and each.status is not DeliveryState.COMPLETED]
    yield from rows("cancel_messages", ids=waiting)
    yield from rows("close_messages", ids=dead, closed_as="erased", operator=said(operator))
    yield from rows("blank_messages", ids=ids)
    yield from rows("blank_tries", ids=ids)
    yield from rows("blank_receipts", message_id=message_id)
    return (yield from log("erase", operator, reason, ids, subject="messages"))


def drop_inbox(*, limit: int, keep: timedelta | None, contents: timedelta | None = None) -> Steps[int]:
    """Drop messages that ended, evidence that came in and receipts that were last seen so long ago; how many were.

    Before that the `contents` of what ended so long ago. Messages go before their receipts: while one is there, its
    receipt is too.
    """
    if contents is not None:
        blanked = [row[0] for row in (yield from rows("old_contents", limit=limit, age=contents))]
        if blanked:
            yield from rows("blank_messages", ids=blanked)
            return len(blanked)
    if keep is None:
        return 0
    ids = [row[0] for row in (yield from rows("old_messages", limit=limit, age=keep))]
    if ids:
        yield from rows("drop_tries", ids=ids)
        yield from rows("drop_messages", ids=ids)
        return len(ids)
    dropped = yield from rows("drop_old_receipts", limit=limit, age=keep)
    dropped += yield from rows("drop_old_evidence", limit=limit, age=keep)
    return len(dropped)


def _ids_called(message_id: str) -> Steps[list[int]]:
    """Return every generation of the message at every consumer, by id."""
    wanted, ids = MessageFilter(message_id=message_id, limit=SHOWN_OF_ONE), []
    while True:
        page = yield from messages(wanted)
        ids += [each.id for each in page]
        if page.next_before is None:
            return sorted(ids)
        wanted = replace(wanted, before=page.next_before)


def _locked(ids: Sequence[int]) -> Steps[list[MessageRow]]:
    """These messages, which nobody changes meanwhile; NotFound when one of them does not exist."""
    locked = {row[0] for row in (yield from rows("lock_messages", ids=ids))}
    if missing := [each for each in ids if each not in locked]:
        raise NotFound(f"there is no message {missing[0]}")
    criteria = MessageFilter().criteria
    return (yield from records(MessageRow, "message_rows", ids=ids, limit=max(1, len(ids)), **criteria))


def _check_open(row: MessageRow) -> None:
    if row.closed_at is not None:
        raise NotAllowed(f"message {row.id} was {row.closed_as} by {row.closed_by or 'somebody'} before")
