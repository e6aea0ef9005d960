"""One verb on many: by id, or by a filter and then as an operation that can be paused and taken up again.

What matches a filter is counted and shown, a person types the number (or has said --yes), and a bar shows the way.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sendonce.admin.advice import Advice
from sendonce.admin.text import counted
from sendonce.cli import options
from sendonce.cli.advice import spelled
from sendonce.cli.output import fields_of, say, say_all, warn
from sendonce.cli.parser import Parser, WrongUse
from sendonce.cli.prompt import Bar, agrees_by_number, check_terminal, progress
from sendonce.cli.verbs import Arguments, Verb
from sendonce.domain.deliveries import ReasonClass
from sendonce.domain.durations import format_rate
from sendonce.store.bulk import (
    ATTEST,
    CANCEL,
    DEFAULT_RATE,
    DISCARD,
    DONE,
    OF_LETTERS,
    PAUSED,
    REPLAY,
    REQUEUE,
    SENDS_NOTHING,
    OperationRow,
)
from sendonce.store.filters import Filter

if TYPE_CHECKING:
    from sendonce.admin.api import Admin
    from sendonce.admin.bulk import Planned
    from sendonce.admin.dead_letters import Reopened

_FILTERS = ("type", "destination", "tenant", "given_up_as", "since", "until")
_ONLY_WITH_FILTER = {"dry_run": "--dry-run", "yes": "--yes", "rate": "--rate"}
_DONE = {REQUEUE: "requeued", REPLAY: "replayed", CANCEL: "cancelled", ATTEST: "attested", DISCARD: "discarded"}


@dataclass(frozen=True, slots=True)
class Bulk:
    """What an operation would do, and what has become of it when it was begun."""

    planned: "Planned | None"
    operation: OperationRow | None
    is_dry_run: bool = False


def selection(what: str, *, given_up_as: bool = False) -> Arguments:
    """Declare ids, or the options of a filter and of an operation that can be paused and taken up again.

    `wanted` is the filter, and None when ids were given.
    """

    def add(parser: Parser) -> None:
        parser.add_argument(
            "ids", nargs="*", type=options.row_id, metavar="ID", help=f"the {what}'s id; or a filter instead"
        )
        parser.add_argument("--all", action="store_true", help="all there are, without a filter")
        parser.add_argument(
            "--type", type=options.type_pattern, metavar="TYPE", help="of this event type, or family: order.*"
        )
        parser.add_argument("--destination", type=options.destination, metavar="URI", help="to this destination")
        parser.add_argument("--tenant", type=options.tenant, metavar="NAME", help="of this tenant")
        if given_up_as:
            parser.add_argument(
                "--given-up-as",
                type=options.reason_class,
                metavar="CLASS",
                help=f"as one of: {', '.join(ReasonClass)}; what was cancelled is left out unless you say so here",
            )
        for name, side in (("since", "not before"), ("until", "before")):
            parser.add_argument(
                f"--{name}", type=options.past, metavar="WHEN", help=f"{side} 30m, 2h, 3d ago, or an ISO time (UTC)"
            )
        parser.add_argument("--dry-run", action="store_true", help="count what matches the filter, and do nothing")
        parser.add_argument("--yes", action="store_true", help="do not ask before what matches the filter is touched")
        parser.add_argument(
            "--rate",
            type=options.some_rate,
            metavar="RATE",
            help=f"at most so many of what matches, like 100/s (default {format_rate(DEFAULT_RATE)})",
        )

    return Arguments(add, {"wanted": _selection_of})


def _selection_of(args: argparse.Namespace) -> Filter | None:
    given = {name: getattr(args, name, None) for name in _FILTERS}
    has_filter = args.all or any(value is not None for value in given.values())
    if args.ids and has_filter:
        raise WrongUse("give ids, or a filter; not both")
    if args.ids:
        for name, option in _ONLY_WITH_FILTER.items():
            if getattr(args, name):
                raise WrongUse(f"{option} belongs to a filter; leave it out when you name ids")
        return None
    if not has_filter:
        raise WrongUse("say which ones: ids, or a filter like --type order.* or --since 2h, or --all")
    if args.all and any(value is not None for value in given.values()):
        raise WrongUse("--all is without a filter; leave it out to go by the filter")
    if given["since"] is not None and given["until"] is not None and given["since"] >= given["until"]:
        raise WrongUse("--until must be later than --since")
    if not args.yes and not args.dry_run:
        if args.json:
            raise WrongUse("--json asks nobody: count first with --dry-run, then add --yes")
        check_terminal()
    return Filter(
        type=args.type,
        destination=args.destination,
        tenant=args.tenant,
        reason=given["given_up_as"],
        since=args.since,
        until=args.until,
        even_if_sent=getattr(args, "even_if_sent", False),
    )


async def run_bulk(admin: "Admin", args: argparse.Namespace, kind: str, wanted: Filter) -> Bulk:
    """Do to all that match what the verb does to the ids that it is given."""
    if args.dry_run or not args.yes or not await admin.amatches(kind, wanted):
        planned = await admin.apreview_operation(kind, wanted)
        while planned.next_after is not None:
            progress(f"{planned.looked:,} looked at, {planned.matching:,} match")
            planned += await admin.apreview_operation(kind, wanted, after=planned.next_after)
        progress("")
        if args.dry_run or args.yes or not planned.affected:
            return Bulk(planned, None, args.dry_run)
        say_all(_plan(planned), wide=args.wide)
        if not agrees_by_number(planned.affected):
            return Bulk(None, None)
    operation = await admin.abegin_operation(kind, wanted, reason=args.reason, rate=args.rate or DEFAULT_RATE)
    if not args.json:
        say(f"operation {operation.id} has begun; pause it with: sendonce operations pause {operation.id}")
        sys.stdout.flush()
    return Bulk(None, await drive(admin, operation))


async def drive(admin: "Admin", operation: OperationRow) -> OperationRow:
    """Run an operation with a bar, to its end or until it is paused."""
    import asyncio

    bar = Bar(_part(operation), operation.affected)

    def show(reached: OperationRow) -> None:
        text = f"{reached.affected:,} {_DONE[reached.kind]}" + _skipped(reached)
        bar.show(_part(reached), reached.affected, text)

    try:
        return await admin.arun_operation(operation.id, on_progress=show)
    except asyncio.CancelledError:
        await admin.apause_operation(operation.id, reason="interrupted")
        warn(f"operation {operation.id} is paused; {spelled(go_on_with(operation))}")
        raise
    finally:
        progress("")


def tell_bulk(
    verb: Verb, of_ids: Callable[[Any], Iterable[str]], code_of_ids: Callable[[Any], int] = lambda result: 0
) -> None:
    """Let a verb tell an operation by filter alike, and what was done by id as it says."""
    verb.text(lambda result: _told(result) if isinstance(result, Bulk) else of_ids(result))
    verb.json(lambda result: _document(result) if isinstance(result, Bulk) else result)
    verb.code(lambda result: _code(result) if isinstance(result, Bulk) else code_of_ids(result))


def reopened_lines(reopened: "list[Reopened]") -> Iterator[str]:
    """Say which deliveries are on their way again, and which of them may arrive a second time."""
    for each in reopened:
        doubt = "; it may arrive twice where the receiver does not know our token" if each.may_repeat else ""
        yield (
            f"delivery {each.old_delivery_id} is sent again as delivery {each.delivery_id} to {each.destination}{doubt}"
        )


def go_on_with(operation: OperationRow) -> Advice:
    return Advice(verb="resume_operation", why="go on with", id=operation.id, of="operation")


def outcome_lines(operation: OperationRow) -> Iterator[str]:
    """Say what has become of an operation."""
    noun = ("dead letter", "dead letters") if operation.kind in OF_LETTERS else ("delivery", "deliveries")
    yield f"operation {operation.id}: {counted(operation.affected, *noun)} {_DONE[operation.kind]}{_skipped(operation)}"
    if operation.skipped:
        sent = "" if operation.kind in SENDS_NOTHING else "may have arrived, has nothing to send any more, or "
        yield f"skipped is what {sent}has changed meanwhile"
    if operation.state == PAUSED:
        yield f"it was paused; {spelled(go_on_with(operation))}"
    elif operation.state != DONE:
        yield f"it was {operation.state} before its end"


def operation_document(operation: OperationRow) -> dict[str, object]:
    """For JSON: the row, with its filter as an object."""
    return {**fields_of(operation), "filter": None if operation.filter is None else json.loads(operation.filter)}


def _told(bulk: Bulk) -> Iterator[str]:
    if bulk.operation is not None:
        yield from outcome_lines(bulk.operation)
        return
    if bulk.planned is not None:
        yield from _plan(bulk.planned)
    if not bulk.is_dry_run:
        yield "nothing was done"


def _document(bulk: Bulk) -> dict[str, object]:
    if bulk.operation is not None or bulk.planned is None:
        return {} if bulk.operation is None else operation_document(bulk.operation)
    planned = bulk.planned
    return {
        "kind": planned.kind,
        "subject": planned.subject,
        "matching": planned.matching,
        "may_have_arrived": planned.may_have_arrived,
        "cancelled": planned.cancelled,
        "would_skip": planned.skipped,
        "would_affect": planned.affected,
        "dry_run": bulk.is_dry_run,
    }


def _code(bulk: Bulk) -> int:
    if bulk.operation is not None:
        return 0 if bulk.operation.state == DONE else 1
    return 0 if bulk.is_dry_run or (bulk.planned is not None and not bulk.planned.matching) else 1


def _plan(planned: "Planned") -> Iterator[str]:
    yield (
        f"{planned.matching:,} match: {planned.subject}" if planned.matching else f"nothing matches: {planned.subject}"
    )
    if planned.may_have_arrived and planned.kind not in SENDS_NOTHING:
        arrived = f"{planned.may_have_arrived:,} of them have arrived already, or may have"
        yield f"{arrived}: " + (
            "done all the same" if planned.even_if_sent else "skipped, unless you add --even-if-sent"
        )
    if planned.cancelled:
        anyway = "name their ids" if planned.kind == REPLAY else "add --given-up-as cancelled"
        whom = "close them" if planned.kind in SENDS_NOTHING else "send them"
        yield f"{planned.cancelled:,} more, which a person has cancelled, would be left out; to {whom}, {anyway}"
    if planned.matching:
        yield f"{planned.affected:,} would be {_DONE[planned.kind]}"


def _part(operation: OperationRow) -> float:
    whole = operation.upper_id - operation.first_id
    return (operation.last_id - operation.first_id) / whole if whole else 1.0


def _skipped(operation: OperationRow) -> str:
    return f", {operation.skipped:,} skipped" if operation.skipped else ""
