"""sendonce dead-letters: what was given up, and what to do about it."""

import argparse
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from sendonce.admin.advice import Advice
from sendonce.admin.dead_letters import Attested, Reopened, check_open
from sendonce.cli.advice import spelled
from sendonce.cli.bulk import Bulk, reopened_lines, run_bulk, selection, tell_bulk
from sendonce.cli.options import (
    BEFORE,
    DEFAULT_LIMIT,
    DESTINATION,
    EVEN_IF_SENT,
    GIVEN_UP_AS,
    OPERATOR,
    PAGE,
    SINCE,
    TENANT,
    TYPE,
    WHY_REQUIRED,
    id_of,
    limit,
    named_destination,
    payload,
    wanted_of,
)
from sendonce.cli.output import Line
from sendonce.cli.parser import WrongUse
from sendonce.cli.tables import Cell, Table, address, field_lines, listed, now, when
from sendonce.cli.verbs import argument, verb
from sendonce.errors import BadDestination, BadEvent
from sendonce.store.bulk import ATTEST, DISCARD, REQUEUE
from sendonce.store.filters import Filter, Page
from sendonce.store.records import Acted, DeadLetterGroup, DeadLetterRow

if TYPE_CHECKING:
    from sendonce.admin.api import Admin

_PARTS = ("subject", "text", "html")
_ID = id_of("dead letter")
_CANCELLED = argument("--cancelled", action="store_true", help="also what a person has cancelled")


@verb(
    "dead-letters list",
    "list the open dead letters, the newest first",
    TYPE,
    DESTINATION,
    *GIVEN_UP_AS,
    _CANCELLED,
    TENANT,
    SINCE,
    *PAGE,
)
async def list_letters(admin: "Admin", args: argparse.Namespace) -> Page[DeadLetterRow]:
    return await admin.adead_letters(**wanted_of(args))


@list_letters.text
def _(page: Page[DeadLetterRow], limit: int) -> Iterator[Line]:
    return listed(page, _table, "dead letters", limit)


def _table(letters: Page[DeadLetterRow]) -> Table:
    at = now()
    rows = [
        [
            Cell(str(each.id)),
            Cell(str(each.delivery_id)),
            Cell(f"{each.reason}, may have been sent" if each.in_doubt else each.reason, "red"),
            Cell(each.type),
            Cell(each.key),
            address(each.destination),
            Cell(each.error_code or ""),
            when(each.created_at, at),
        ]
        for each in letters
    ]
    return Table(["ID", "DELIVERY", "REASON", "TYPE", "KEY", "DESTINATION", "ERROR", "GIVEN UP"], rows)


@verb(
    "dead-letters summary",
    "count the open dead letters by reason, error, type and where they were to go",
    TYPE,
    DESTINATION,
    *GIVEN_UP_AS,
    _CANCELLED,
    TENANT,
    SINCE,
    BEFORE,
    argument(
        "--limit",
        type=limit,
        default=DEFAULT_LIMIT,
        metavar="N",
        help=f"at most so many groups, the largest first (default {DEFAULT_LIMIT})",
    ),
)
async def summarise(admin: "Admin", args: argparse.Namespace) -> Page[DeadLetterGroup]:
    return await admin.adead_letter_summary(**wanted_of(args))


@summarise.text
def _(page: Page[DeadLetterGroup], limit: int) -> Iterator[Line]:
    yield from listed(page, _groups, "dead letters", limit + 1)
    if len(page) == limit:
        yield f"these are the {limit} largest groups; for more, give a higher --limit"


def _groups(groups: Page[DeadLetterGroup]) -> Table:
    at = now()
    rows = [
        [
            Cell(f"{each.count:,}"),
            Cell(each.reason, "red"),
            Cell(each.error_code or ""),
            Cell(each.type),
            address(each.host),
            when(each.oldest_at, at),
            when(each.newest_at, at),
        ]
        for each in groups
    ]
    return Table(["COUNT", "REASON", "ERROR", "TYPE", "HOST", "OLDEST", "NEWEST"], rows)


@verb("dead-letters show", "show one dead letter", _ID)
async def show_letter(admin: "Admin", id: int) -> DeadLetterRow:
    return await admin.adead_letter(id)


@show_letter.text
def _(letter: DeadLetterRow) -> Iterator[str]:
    yield from field_lines([(each.name, getattr(letter, each.name)) for each in fields(letter)], now())
    yield spelled(Advice(verb="explain", why="in plain words", id=letter.delivery_id, of="delivery"))


@verb(
    "dead-letters requeue",
    "send dead letters again, as the next generation",
    selection("dead letter", given_up_as=True),
    WHY_REQUIRED,
    OPERATOR,
    EVEN_IF_SENT,
)
async def requeue(
    admin: "Admin", args: argparse.Namespace, ids: list[int], wanted: Filter | None
) -> list[Reopened] | Bulk:
    if wanted is not None:
        return await run_bulk(admin, args, REQUEUE, wanted)
    return await admin.arequeue(ids, reason=args.reason, even_if_sent=args.even_if_sent)


tell_bulk(requeue, reopened_lines)


@verb(
    "dead-letters correct",
    "send a dead letter to another address, or with other content",
    _ID,
    argument("--to", type=named_destination, metavar="URI", help="where it goes instead"),
    payload("default: as it is"),
    argument("--subject", metavar="TEXT", help="an e-mail's new subject"),
    argument("--text", metavar="TEXT", help="an e-mail's new text"),
    argument("--html", metavar="TEXT", help="an e-mail's new HTML text"),
    WHY_REQUIRED,
    OPERATOR,
    EVEN_IF_SENT,
)
async def correct(admin: "Admin", args: argparse.Namespace, payload: object) -> Reopened:
    changes = {name: getattr(args, name) for name in _PARTS if getattr(args, name) is not None}
    if not changes and payload is None and args.to is None:
        raise WrongUse("say what is corrected: --to URI, --payload JSON, or --subject, --text and --html of an e-mail")
    if changes and payload is not None:
        raise WrongUse("--subject, --text and --html make an e-mail; --payload is for everything else")
    try:
        letter = await admin.adead_letter(args.id)
        check_open(letter)
        return await admin.acorrect(
            letter.delivery_id,
            to=args.to,
            payload=payload,
            mail=changes,
            reason=args.reason,
            even_if_sent=args.even_if_sent,
        )
    except (BadEvent, BadDestination) as error:
        raise WrongUse(str(error)) from None


@correct.text
def _(done: Reopened) -> Iterator[str]:
    yield f"delivery {done.old_delivery_id} is corrected: delivery {done.delivery_id} goes to {done.destination}"


@verb(
    "dead-letters attest",
    "close dead letters that were delivered, as a person knows",
    selection("dead letter", given_up_as=True),
    argument("--notification-id", metavar="ID", help="the other side's id for it, where it is known"),
    WHY_REQUIRED,
    OPERATOR,
)
async def attest(
    admin: "Admin", args: argparse.Namespace, ids: list[int], wanted: Filter | None
) -> list[Attested] | Bulk:
    if args.notification_id and len(set(ids)) != 1:
        raise WrongUse("--notification-id is the id of one message; attest the others without it, or one by one")
    if wanted is not None:
        return await run_bulk(admin, args, ATTEST, wanted)
    return await admin.aattest(ids, reason=args.reason, notification_id=args.notification_id)


def _attested(attested: list[Attested]) -> Iterator[str]:
    for each in attested:
        yield (
            f"dead letter {each.dead_letter_id} is attested as sent: delivery {each.delivery_id}"
            f" to {each.destination} is completed"
        )


tell_bulk(attest, _attested)


@verb(
    "dead-letters discard",
    "close dead letters without sending them",
    selection("dead letter", given_up_as=True),
    WHY_REQUIRED,
    OPERATOR,
)
async def discard(admin: "Admin", args: argparse.Namespace, ids: list[int], wanted: Filter | None) -> Acted | Bulk:
    if wanted is not None:
        return await run_bulk(admin, args, DISCARD, wanted)
    return await admin.adiscard(ids, reason=args.reason)


def _discarded(acted: Acted) -> Iterator[str]:
    for each in acted.ids:
        yield f"dead letter {each} is discarded"


tell_bulk(discard, _discarded)
