"""sendonce restored: say that nothing was lost, where a worker has noticed that commits are missing."""

import argparse
from typing import TYPE_CHECKING

from sendonce.admin.text import counted, plain
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.options import add_json, add_operator
from sendonce.cli.output import say, say_json
from sendonce.cli.running import with_store
from sendonce.cli.settings import operator_of

if TYPE_CHECKING:
    from sendonce.store.ports import Store
    from sendonce.store.records import LossRow


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "restored",
        help=COMMANDS["restored"][1],
        description="A worker has noticed that this database is older than what it remembers, and has put what is open"
        " in doubt. Where you know that nothing was sent that the database does not know of, end that now. After a"
        " restore that no worker can notice, use: sendonce doubt --open.",
    )
    parser.add_argument(
        "--nothing-lost",
        action="store_true",
        required=True,
        help="nothing was sent that the database does not know of: what is open is sent without being asked about",
    )
    add_operator(parser, reason_required=True)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    loss = with_store(args, lambda store: _disprove(store, operator, args.reason))
    if args.json:
        say_json(plain(loss))
    elif loss is None:
        say("no worker has noticed a loss of commits: there is nothing to end")
    else:
        say(f"the loss of commits is over: {counted(loss.doubted, 'delivery', 'deliveries')} are sent without asking")
    return 0


async def _disprove(store: "Store", operator: str, reason: str) -> "LossRow | None":
    return await store.disprove_loss(operator=operator, reason=reason)
