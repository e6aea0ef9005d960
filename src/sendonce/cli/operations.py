"""sendonce operations: what people have done, and what is being done by filter."""

import argparse
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from sendonce.admin import bulk
from sendonce.admin.explain.find import LARGEST_ID
from sendonce.cli import values
from sendonce.cli.bulk import as_dict, drive, say_outcome
from sendonce.cli.cells import now, show_fields
from sendonce.cli.commands import Subparsers
from sendonce.cli.nouns import add_noun, run_verb
from sendonce.cli.options import DEFAULT_LIMIT, add_json, add_operator
from sendonce.cli.output import say, say_json
from sendonce.cli.parser import Parser
from sendonce.cli.running import with_store
from sendonce.cli.settings import operator_of
from sendonce.cli.tables import Cell, show_table, when
from sendonce.store.bulk import PAUSED, RUNNING, STATES, OperationRow

if TYPE_CHECKING:
    from sendonce.store.ports import Store

_COLOURS = {RUNNING: "green", PAUSED: "yellow"}
_WALK = {"first_id", "last_id", "upper_id", "looked", "skipped", "rate", "filter", "updated_at"}


def add(subparsers: Subparsers) -> None:
    add_noun(
        subparsers,
        "operations",
        "Look at what people have done, and keep what is being done by filter in hand.",
        {
            "list": ("list who did what, when and why, the newest first", _add_list),
            "show": ("show one operation", _add_show),
            "pause": ("stop an operation by filter before its next step", _add_change),
            "resume": ("let a paused or interrupted operation go on, here", _add_change),
            "cancel": ("end an operation by filter where it is; what it has done stays", _add_change),
        },
    )


def run(args: argparse.Namespace) -> int:
    verbs = {"list": _list, "show": _show, "pause": _pause, "resume": _resume, "cancel": _cancel}
    return run_verb(args, verbs)


def _add_list(parser: Parser) -> None:
    parser.add_argument(
        "--state", type=values.operation_state, metavar="STATE", help=f"only these: {', '.join(STATES)}"
    )
    parser.add_argument(
        "--before", type=values.row_id, default=LARGEST_ID, metavar="ID", help="only older ones than this one"
    )
    parser.add_argument(
        "--limit",
        type=values.limit,
        default=DEFAULT_LIMIT,
        metavar="N",
        help=f"at most so many (default {DEFAULT_LIMIT})",
    )
    add_json(parser)


def _add_show(parser: Parser) -> None:
    _add_id(parser)
    add_json(parser)


def _add_change(parser: Parser) -> None:
    _add_id(parser)
    add_operator(parser)
    add_json(parser)


def _add_id(parser: Parser) -> None:
    parser.add_argument("id", type=values.row_id, metavar="ID", help="the operation's id")


def _list(args: argparse.Namespace) -> int:
    rows = with_store(args, lambda store: store.operations(before=args.before, state=args.state, limit=args.limit))
    if args.json:
        say_json([as_dict(each) for each in rows])
    elif not rows:
        say("no operations match")
    else:
        _table(rows)
    return 0


def _table(rows: Sequence[OperationRow]) -> None:
    moment = now()
    cells = [
        [
            Cell(str(each.id)),
            when(each.created_at, moment),
            Cell(each.operator),
            Cell(each.kind),
            Cell(each.subject),
            Cell(f"{each.affected:,}"),
            Cell(each.state, _COLOURS.get(each.state)),
            Cell(each.reason or ""),
        ]
        for each in rows
    ]
    show_table(["ID", "WHEN", "WHO", "WHAT", "TO", "AFFECTED", "STATE", "WHY"], cells)


def _show(args: argparse.Namespace) -> int:
    operation = with_store(args, lambda store: bulk.find(store, args.id))
    if args.json:
        say_json(as_dict(operation))
        return 0
    names = [field.name for field in fields(operation) if operation.filter is not None or field.name not in _WALK]
    show_fields([(name, getattr(operation, name)) for name in names], now())
    if operation.state in (RUNNING, PAUSED):
        say(f"go on with: sendonce operations resume {operation.id}")
    return 0


def _pause(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    operation = with_store(args, lambda store: bulk.pause(store, args.id, operator=operator, reason=args.reason))
    return _say(args, operation, f"operation {args.id} is paused; go on with: sendonce operations resume {args.id}")


def _cancel(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    operation = with_store(args, lambda store: bulk.cancel(store, args.id, operator=operator, reason=args.reason))
    return _say(args, operation, f"operation {args.id} is cancelled; what it has done stays")


def _resume(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    return say_outcome(with_store(args, lambda store: _go_on(store, args, operator)), as_json=args.json)


async def _go_on(store: "Store", args: argparse.Namespace, operator: str) -> OperationRow:
    operation = await bulk.resume(store, args.id, operator=operator, reason=args.reason)
    return await drive(store, operation, operator)


def _say(args: argparse.Namespace, operation: OperationRow, sentence: str) -> int:
    if args.json:
        say_json(as_dict(operation))
    else:
        say(sentence)
    return 0
