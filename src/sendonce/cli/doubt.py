"""sendonce doubt: after a restore, have everything that is open asked about before it is sent."""

import argparse
from typing import TYPE_CHECKING

from sendonce.admin.doubt import USUAL_WAIT, open_in_doubt
from sendonce.admin.text import counted
from sendonce.cli import values
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.options import add_json, add_operator
from sendonce.cli.output import say, say_json
from sendonce.cli.progress import progress
from sendonce.cli.running import with_store
from sendonce.cli.settings import operator_of
from sendonce.domain.durations import format_duration

if TYPE_CHECKING:
    from sendonce.store.ports import Store


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "doubt",
        help=COMMANDS["doubt"][1],
        description="After a restore or a failover that lost commits, and before workers start: what is open may have"
        " been sent, so it is asked about first; where nobody can be asked, if_unsure decides.",
    )
    parser.add_argument("--open", action="store_true", required=True, help="everything that is not finished")
    parser.add_argument(
        "--wait",
        type=values.duration,
        metavar="TIME",
        help="how long nothing is asked or sent, because providers may lag (default 5m, and where a subscription's own"
        " doubt_wait is longer, that)",
    )
    parser.add_argument("--even-if-running", action="store_true", help="although workers are alive")
    add_operator(parser, reason_required=True)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    changed = with_store(args, lambda store: _doubt(store, args, operator))
    if args.json:
        say_json({"changed": changed})
    else:
        wait, least = (USUAL_WAIT, "at least ") if args.wait is None else (args.wait, "")
        lag = f"; nobody asks about them or sends them for {least}{format_duration(wait)}, then workers do"
        done = f"{counted(changed, 'open delivery', 'open deliveries')} put in doubt"
        say(f"{done}{lag if wait else '; ask now with: sendonce reconcile'}")
    return 0


async def _doubt(store: "Store", args: argparse.Namespace, operator: str) -> int:
    changed = 0
    try:
        async for each in open_in_doubt(
            store, operator=operator, reason=args.reason, wait=args.wait, even_if_running=args.even_if_running
        ):
            changed = each.changed
            progress(f"{changed:,} put in doubt, up to delivery {each.last_id}")
    finally:
        progress("")
    return changed
