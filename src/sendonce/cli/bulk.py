"""Requeue, replay or cancel by filter: count, ask, and do it with a bar; Ctrl-C pauses it."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from sendonce.admin import bulk
from sendonce.admin.text import counted, plain
from sendonce.cli.agreeing import agrees, check_terminal
from sendonce.cli.output import say, say_json, warn
from sendonce.cli.progress import Bar, progress
from sendonce.cli.running import with_store
from sendonce.cli.settings import operator_of
from sendonce.store.bulk import CANCEL, DEFAULT_RATE, DONE, PAUSED, REPLAY, REQUEUE, OperationRow
from sendonce.store.filters import Filter

if TYPE_CHECKING:
    from sendonce.admin.bulk import Planned
    from sendonce.store.ports import Store

_DONE = {REQUEUE: "requeued", REPLAY: "replayed", CANCEL: "cancelled"}


def run_bulk(args: argparse.Namespace, kind: str, wanted: Filter) -> int:
    """Do to all that match what the command does to the ids that it is given."""
    operator = operator_of(args)
    if args.dry_run:
        planned = with_store(args, lambda store: bulk.plan(store, kind, wanted))
        _say_plan(planned, as_json=args.json)
        return 0
    if not args.yes:
        check_terminal()
    return with_store(args, lambda store: _begin(store, args, kind, wanted, operator))


async def drive(store: "Store", operation: OperationRow, operator: str) -> OperationRow:
    """Run an operation with a bar, to its end or until it is paused."""
    import asyncio

    bar = Bar(_part(operation), operation.affected)
    try:
        async for operation in bulk.run(store, operation.id):  # noqa: B020
            text = f"{operation.affected:,} {_DONE[operation.kind]}" + _skipped(operation)
            bar.show(_part(operation), operation.affected, text)
    except asyncio.CancelledError:
        await bulk.pause(store, operation.id, operator=operator, reason="interrupted")
        warn(f"operation {operation.id} is paused; go on with: sendonce operations resume {operation.id}")
        raise
    finally:
        progress("")
    return operation


def say_outcome(operation: OperationRow, *, as_json: bool) -> int:
    """What has become of it; 1 when it has not come to its end."""
    if as_json:
        say_json(as_dict(operation))
    else:
        noun = ("dead letter", "dead letters") if operation.kind == REQUEUE else ("delivery", "deliveries")
        done = f"{counted(operation.affected, *noun)} {_DONE[operation.kind]}"
        say(f"operation {operation.id}: {done}{_skipped(operation)}")
        if operation.skipped:
            say("skipped is what may have arrived, has nothing to send any more, or has changed meanwhile")
        if operation.state == PAUSED:
            say(f"it was paused; go on with: sendonce operations resume {operation.id}")
        elif operation.state != DONE:
            say(f"it was {operation.state} before its end")
    return 0 if operation.state == DONE else 1


def as_dict(operation: OperationRow) -> dict[str, object]:
    """For JSON: the row, with its filter as an object."""
    shown = plain(operation)
    row = shown if isinstance(shown, dict) else {}
    return {**row, "filter": None if operation.filter is None else json.loads(operation.filter)}


async def _begin(store: "Store", args: argparse.Namespace, kind: str, wanted: Filter, operator: str) -> int:
    if not args.yes or not await bulk.matches(store, kind, wanted):
        planned = await bulk.plan(store, kind, wanted)
        _say_plan(planned, as_json=args.json and args.yes)
        if args.yes or not planned.affected or not agrees():
            if not args.json:
                say("nothing was done")
            return 1 if planned.matching else 0
    operation = await bulk.begin(
        store, kind, wanted, operator=operator, reason=args.reason, rate=args.rate or DEFAULT_RATE
    )
    if not args.json:
        say(f"operation {operation.id} has begun; pause it with: sendonce operations pause {operation.id}")
        sys.stdout.flush()
    return say_outcome(await drive(store, operation, operator), as_json=args.json)


def _say_plan(planned: "Planned", *, as_json: bool) -> None:
    if as_json:
        say_json({**_counts(planned), "dry_run": True})
        return
    say(f"{planned.matching:,} match: {planned.subject}" if planned.matching else f"nothing matches: {planned.subject}")
    if planned.may_have_arrived:
        arrived = f"{planned.may_have_arrived:,} of them have arrived already, or may have"
        say(
            f"{arrived}: " + ("done all the same" if planned.even_if_sent else "skipped, unless you add --even-if-sent")
        )
    if planned.cancelled:
        anyway = "add --given-up-as cancelled" if planned.kind == REQUEUE else "name their ids"
        say(f"{planned.cancelled:,} more, which a person has cancelled, would be left out; to send them, {anyway}")
    if planned.matching:
        say(f"{planned.affected:,} would be {_DONE[planned.kind]}")


def _counts(planned: "Planned") -> dict[str, object]:
    return {
        "kind": planned.kind,
        "subject": planned.subject,
        "matching": planned.matching,
        "may_have_arrived": planned.may_have_arrived,
        "cancelled": planned.cancelled,
        "would_skip": planned.skipped,
        "would_affect": planned.affected,
    }


def _part(operation: OperationRow) -> float:
    whole = operation.upper_id - operation.first_id
    return (operation.last_id - operation.first_id) / whole if whole else 1.0


def _skipped(operation: OperationRow) -> str:
    return f", {operation.skipped:,} skipped" if operation.skipped else ""
