"""sendonce subscriptions policy, types and test: other limits, other events, and a try of the whole way."""

import argparse

from sendonce.admin import subscriptions
from sendonce.cli import values
from sendonce.cli.failures import WrongUse
from sendonce.cli.options import add_json, add_operator
from sendonce.cli.output import say, say_json
from sendonce.cli.parser import Parser
from sendonce.cli.running import with_store
from sendonce.cli.settings import operator_of
from sendonce.errors import SendonceError


def add_policy(parser: Parser) -> None:
    _add_id(parser)
    parser.add_argument(
        "policy", metavar="JSON", help='its own limits, like {"max_attempts": 5}; none: those of its channel'
    )
    add_operator(parser)
    add_json(parser)


def add_types(parser: Parser) -> None:
    _add_id(parser)
    parser.add_argument("type", nargs="+", metavar="TYPE", help="an event type, a family like order.* or * for all")
    add_operator(parser)
    add_json(parser)


def add_test(parser: Parser) -> None:
    _add_id(parser)
    add_operator(parser, reason=False)
    add_json(parser)


def policy(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    try:
        wanted = subscriptions.Changes(
            policy=None if args.policy == "none" else subscriptions.check_policy(args.policy),
            drops_policy=args.policy == "none",
        )
    except SendonceError as error:
        raise WrongUse(str(error)) from None
    row = with_store(
        args, lambda store: subscriptions.apply(store, args.id, wanted, operator=operator, reason=args.reason)
    )
    if args.json:
        say_json(row)
    else:
        kept = "no policy of its own" if row.policy is None else f"the policy {row.policy}"
        say(f"subscription {row.id} has {kept}")
    return 0


def types(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    try:
        wanted = subscriptions.Changes(types=subscriptions.check_types(args.type))
    except SendonceError as error:
        raise WrongUse(str(error)) from None
    row = with_store(
        args, lambda store: subscriptions.apply(store, args.id, wanted, operator=operator, reason=args.reason)
    )
    if args.json:
        say_json(row)
    else:
        say(f"subscription {row.id} gets {', '.join(row.types)} from now on")
    return 0


def test(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    row = with_store(args, lambda store: subscriptions.send_test(store, args.id, operator=operator))
    if args.json:
        say_json(row)
    else:
        say(f"delivery {row.id} of a test event goes to subscription {args.id}")
        say(f"see what comes of it with: sendonce explain {row.id}")
    return 0


def _add_id(parser: Parser) -> None:
    parser.add_argument("id", type=values.row_id, metavar="ID", help="the subscription's id")
