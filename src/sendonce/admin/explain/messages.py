"""Tell what became of a message that came in: who has handled it, what waits, and what was given up."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from sendonce.admin.advice import Advice, Remark
from sendonce.admin.text import counted, dated, one_line, ordinal
from sendonce.domain.deliveries import DeliveryState
from sendonce.store.inbox import MessageFilter, MessageRow, ReceiptRow, TryRow
from sendonce.store.readers import ReadStore

MESSAGE = "message:"
TOLD_AT_MOST = 100
_REASONS = {
    "refused": "its handler said that it can never be handled",
    "exhausted": "all its tries have failed",
    "expired": "it was too old when it would have been tried again",
    "failed": "its handler failed, and this consumer tries once",
    "poison": "its tries ended with their process again and again",
    "malformed": "it has no usable id or content",
    "cancelled": "a person has given it up",
}


async def message_story(store: ReadStore, message_id: str) -> tuple[Remark, ...]:
    """Return sentences about the message with this id at every consumer; none when nobody knows it."""
    receipts = await store.receipts_of(message_id)
    rows = await store.messages(MessageFilter(message_id=message_id, limit=TOLD_AT_MOST))
    if not receipts and not rows:
        return ()
    now = (await store.status()).now
    told = [Remark(_handled(each, now)) for each in receipts]
    for row in sorted(rows, key=lambda each: (each.consumer, each.generation)):
        told += _told(row, await store.tries_of(row.id), now)
    return tuple(told)


def _handled(receipt: ReceiptRow, now: datetime) -> str:
    again = ""
    if receipt.duplicates and receipt.seen_at is not None:
        again = f"; it came again {counted(receipt.duplicates, 'time')}, last {dated(receipt.seen_at, now)}"
    return (
        f"{one_line(receipt.consumer)} has handled message {one_line(receipt.message_id)!r}"
        f" {dated(receipt.received_at, now)}{again}"
    )


def _told(row: MessageRow, tries: Sequence[TryRow], now: datetime) -> Iterator[Remark]:
    generation = f", generation {row.generation}" if row.generation else ""
    yield Remark(
        f"message {row.id} at {one_line(row.consumer)}{generation} came from {one_line(row.source)}"
        f" {dated(row.created_at, now)}; {counted(row.begun, 'try', 'tries')} begun, {row.finished} finished"
    )
    yield from (Remark(_tried(each, now)) for each in tries)
    yield _ending(row, now)


def _tried(tried: TryRow, now: datetime) -> str:
    came_to = f"{tried.outcome}" if tried.outcome else "not finished"
    why = one_line(" ".join(filter(None, (tried.error_code, tried.error_message))))
    return f"{ordinal(tried.number)} try {dated(tried.begun_at, now)}: {came_to}{f', {why}' if why else ''}"


def _ending(row: MessageRow, now: datetime) -> Remark:
    match row.status:
        case DeliveryState.COMPLETED:
            return Remark("it was handled")
        case DeliveryState.IN_PROGRESS:
            return Remark("it is being handled; if its process dies it is tried again")
        case DeliveryState.DEAD_LETTERED:
            why = _REASONS.get(row.reason or "", str(row.reason))
            if row.closed_at is not None:
                return Remark(f"it was given up: {why}; {row.closed_as} by {one_line(row.closed_by or 'somebody')}")
            again = Advice(verb="retry_messages", why="try it again with", id=row.id, of="message", needs=("reason",))
            return Remark(f"it was given up: {why}", (again,))
    due = f" {dated(row.next_attempt_at, now)}" if row.next_attempt_at else ""
    return Remark(f"it waits for its next try, due{due}")
