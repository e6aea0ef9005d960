"""sendonce inbox: messages that came in and were not handled at once, and what to do about them."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from sendonce.admin.advice import Advice
from sendonce.cli.advice import spelled
from sendonce.cli.options import OPERATOR, PAGE, STATUS, WHY_REQUIRED, id_of, older_than, row_id
from sendonce.cli.output import Line
from sendonce.cli.tables import Cell, Table, field_lines, listed, now, older, when
from sendonce.cli.verbs import argument, verb
from sendonce.domain.deliveries import DeliveryState
from sendonce.store.filters import Page
from sendonce.store.inbox import MessageRow, ReceiptRow, TryRow
from sendonce.store.records import Acted

if TYPE_CHECKING:
    from sendonce.admin.api import Admin

_IDS = argument("ids", nargs="+", type=row_id, metavar="ID", help="the message's id, as the list shows it")
_COLOURS = {DeliveryState.DEAD_LETTERED: "red", DeliveryState.COMPLETED: "green"}


@dataclass(frozen=True, slots=True)
class Shown:
    """One message with all that is known about it."""

    message: MessageRow
    tries: Page[TryRow]
    receipts: list[ReceiptRow]


@verb(
    "inbox list",
    "list messages that were not handled at once, the newest first",
    argument("--consumer", metavar="NAME", help="only at this consumer"),
    argument("--message", metavar="ID", help="only the message with this id of the sender's"),
    argument("--source", metavar="NAME", help="only from this source, like amqp:shop/payments"),
    argument("--dead", action="store_true", help="only what was given up and waits for a person"),
    STATUS,
    *PAGE,
)
async def list_messages(admin: "Admin", args: argparse.Namespace) -> Page[MessageRow]:
    return await admin.amessages(
        consumer=args.consumer,
        message_id=args.message,
        source=args.source,
        dead=args.dead,
        status=args.status,
        before=args.before,
        limit=args.limit,
    )


@list_messages.text
def _(page: Page[MessageRow], limit: int) -> Iterator[Line]:
    return listed(page, _table, "messages", limit)


def _table(messages: Page[MessageRow]) -> Table:
    at = now()
    rows = [
        [
            Cell(str(each.id)),
            Cell(each.consumer),
            Cell(each.message_id or ""),
            Cell(_state(each), _COLOURS.get(each.status)),
            Cell(str(each.begun)),
            Cell(each.error_code or ""),
            Cell(each.source),
            when(each.next_attempt_at or each.ended_at, at),
        ]
        for each in messages
    ]
    return Table(["ID", "CONSUMER", "MESSAGE", "STATE", "TRIES", "ERROR", "SOURCE", "DUE OR ENDED"], rows)


def _state(message: MessageRow) -> str:
    if message.closed_as is not None:
        return f"{message.reason}, {message.closed_as}"
    return message.reason or message.status.value


@verb("inbox show", "show one message, its tries and who has handled it", id_of("message"), older_than("tries"))
async def show_message(admin: "Admin", id: int, before: int | None) -> Shown:
    row = await admin.amessage(id)
    receipts = [] if row.message_id is None else await admin.areceipts_of(row.message_id)
    return Shown(row, await admin.atries_of(id, before=before), receipts)


@show_message.json
def _(shown: Shown) -> object:
    return {
        "message": shown.message,
        "tries": list(shown.tries),
        "next_before": shown.tries.next_before,
        "receipts": shown.receipts,
    }


@show_message.text
def _(shown: Shown) -> Iterator[str]:
    at = now()
    yield from field_lines([(each.name, getattr(shown.message, each.name)) for each in fields(shown.message)], at)
    for tried in shown.tries:
        yield f"try {tried.number}"
        pairs = [(each.name, getattr(tried, each.name)) for each in fields(tried) if each.name != "number"]
        yield from field_lines(pairs, at, "  ")
    yield from older(shown.tries)
    for receipt in shown.receipts:
        again = f", and {receipt.duplicates} duplicates were recognised" if receipt.duplicates else ""
        yield f"handled by {receipt.consumer}{again}"
    if shown.message.message_id is not None:
        yield spelled(Advice(verb="explain", why="in plain words", id=shown.message.message_id, of="message"))


@verb(
    "inbox retry",
    "have dead messages handled again, as the next generation",
    _IDS,
    WHY_REQUIRED,
    OPERATOR,
)
async def retry(admin: "Admin", args: argparse.Namespace, ids: list[int]) -> Acted:
    return await admin.aretry_messages(ids, reason=args.reason)


@retry.text
def _(acted: Acted, ids: list[int]) -> Iterator[str]:
    for old, new in zip(sorted(set(ids)), acted.ids, strict=True):
        yield f"message {old} is handled again, as message {new}"


@verb(
    "inbox discard",
    "close dead messages without handling them, and give up those that wait",
    _IDS,
    WHY_REQUIRED,
    OPERATOR,
)
async def discard(admin: "Admin", args: argparse.Namespace, ids: list[int]) -> Acted:
    return await admin.adiscard_messages(ids, reason=args.reason)


@discard.text
def _(acted: Acted) -> Iterator[str]:
    yield from (f"message {each} is discarded" for each in acted.ids)


@verb(
    "inbox erase",
    "take away what is kept of a message's content, at every consumer",
    argument("message", metavar="ID", help="the sender's id of the message"),
    WHY_REQUIRED,
    OPERATOR,
)
async def erase(admin: "Admin", args: argparse.Namespace, message: str) -> Acted:
    return await admin.aerase_message(message, reason=args.reason)


@erase.text
def _(acted: Acted, message: str) -> Iterator[str]:
    yield f"the content of message {message!r} is erased; that it was handled, or was not, stays"
