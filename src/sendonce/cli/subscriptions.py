"""sendonce subscriptions: standing orders."""

import argparse
from collections.abc import Sequence

from sendonce.cli import values
from sendonce.cli.cells import now
from sendonce.cli.commands import Subparsers
from sendonce.cli.failures import WrongUse
from sendonce.cli.nouns import add_noun, run_verb
from sendonce.cli.options import add_json, add_operator
from sendonce.cli.output import say, say_json
from sendonce.cli.parser import Parser
from sendonce.cli.running import with_store
from sendonce.cli.settings import operator_of
from sendonce.cli.tables import Cell, show_table, when
from sendonce.errors import SendonceError
from sendonce.operations import subscriptions
from sendonce.stores.records import SubscriptionRow


def add(subparsers: Subparsers) -> None:
    add_noun(
        subparsers,
        "subscriptions",
        "Keep standing orders: events of these types go to this destination.",
        {
            "add": ("add a subscription: matching events recorded from now on go to it", _add_add),
            "list": ("list the subscriptions", _add_list),
            "pause": ("hold back a subscription's deliveries until it is resumed", _add_change),
            "resume": ("let a paused or disabled subscription's deliveries go on", _add_change),
            "remove": ("end a subscription, for good", _add_change),
        },
    )


def run(args: argparse.Namespace) -> int:
    return run_verb(
        args,
        {
            "add": _add,
            "list": _list,
            "pause": lambda args: _change(args, subscriptions.PAUSED, "is paused"),
            "resume": lambda args: _change(args, subscriptions.ACTIVE, "is active"),
            "remove": lambda args: _change(args, subscriptions.REMOVED, "is removed"),
        },
    )


def _add_add(parser: Parser) -> None:
    parser.add_argument(
        "--type",
        action="append",
        required=True,
        metavar="TYPE",
        help="an event type, a family like order.* or * for all; may be repeated",
    )
    parser.add_argument("--to", required=True, metavar="URI", help="where its deliveries go")
    parser.add_argument("--tenant", type=values.tenant, default="", metavar="NAME", help="whose events (default: none)")
    parser.add_argument(
        "--policy", metavar="JSON", help='its own limits, like {"max_attempts": 5, "longest_delay": "10m"}'
    )
    parser.add_argument("--description", metavar="TEXT", help="what it is for")
    add_operator(parser, reason=False)
    add_json(parser)


def _add_list(parser: Parser) -> None:
    parser.add_argument("--tenant", type=values.tenant, metavar="NAME", help="only of this tenant")
    add_json(parser)


def _add_change(parser: Parser) -> None:
    parser.add_argument("id", type=values.row_id, metavar="ID", help="the subscription's id")
    add_operator(parser)
    add_json(parser)


def _add(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    try:
        wanted = subscriptions.new_subscription(
            types=args.type, to=args.to, tenant=args.tenant, policy=args.policy, description=args.description
        )
    except SendonceError as error:
        raise WrongUse(str(error)) from None
    row = with_store(args, lambda store: subscriptions.add(store, wanted, operator=operator))
    if args.json:
        say_json(row)
    else:
        say(f"subscription {row.id}: {', '.join(row.types)} goes to {row.destination}")
    return 0


def _list(args: argparse.Namespace) -> int:
    rows = with_store(args, lambda store: store.subscriptions(args.tenant))
    if args.json:
        say_json(rows)
    elif not rows:
        say("no subscriptions match")
    else:
        _table(rows)
    return 0


def _table(rows: Sequence[SubscriptionRow]) -> None:
    moment = now()
    cells = [
        [
            Cell(str(each.id)),
            Cell(each.state, "green" if each.state == subscriptions.ACTIVE else "yellow"),
            Cell(", ".join(each.types)),
            Cell(each.destination),
            Cell(each.tenant),
            Cell(each.description or ""),
            when(each.created_at, moment),
        ]
        for each in rows
    ]
    show_table(["ID", "STATE", "TYPES", "DESTINATION", "TENANT", "DESCRIPTION", "ADDED"], cells)


def _change(args: argparse.Namespace, state: str, now_true: str) -> int:
    operator = operator_of(args)
    row = with_store(
        args, lambda store: subscriptions.change(store, args.id, state, operator=operator, reason=args.reason)
    )
    if args.json:
        say_json(row)
    else:
        say(f"subscription {row.id} {now_true}")
    return 0
