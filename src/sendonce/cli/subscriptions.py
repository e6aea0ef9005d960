"""sendonce subscriptions: standing orders."""

import argparse
from collections.abc import Sequence
from datetime import datetime

from sendonce.admin import subscriptions
from sendonce.admin.text import counted, dated
from sendonce.cli import ordering, values
from sendonce.cli.cells import now, show_fields
from sendonce.cli.commands import Subparsers
from sendonce.cli.failures import WrongUse
from sendonce.cli.nouns import add_noun, run_verb
from sendonce.cli.options import add_json, add_operator
from sendonce.cli.output import say, say_json
from sendonce.cli.parser import Parser
from sendonce.cli.rotating import add_reseal, add_rotate, as_dict, reseal, rotate, say_with_secret
from sendonce.cli.running import with_store
from sendonce.cli.secret_files import add_secrets, sealer_of, secrets_of
from sendonce.cli.settings import operator_of
from sendonce.cli.tables import Cell, show_table, when
from sendonce.domain.destinations import scheme_of
from sendonce.domain.rates import format_rate
from sendonce.errors import SendonceError
from sendonce.store.records import ROOM_CAP, KeptSecret, SubscriptionRow

# What is sent there is signed unless somebody says no.
SIGNED = ("http", "https")
_WAITING = {"resume": "until it is resumed", "rate": "for its rate", "destination": "for room at its destination"}


def add(subparsers: Subparsers) -> None:
    add_noun(
        subparsers,
        "subscriptions",
        "Keep standing orders: events of these types go to this destination.",
        {
            "add": ("add a subscription: matching events recorded from now on go to it", _add_add),
            "list": ("list the subscriptions", _add_list),
            "show": ("show one subscription: everything but its secrets", _add_show),
            "pause": ("hold back a subscription's deliveries until it is resumed", _add_change),
            "resume": ("let a paused or disabled subscription's deliveries go on", _add_change),
            "remove": ("end a subscription, for good", _add_change),
            "rate": ("limit how much a subscription is sent", _add_rate),
            "policy": ("give a subscription other limits", ordering.add_policy),
            "types": ("let a subscription get other types of event", ordering.add_types),
            "test": ("send a test event to a subscription, and to no other", ordering.add_test),
            "rotate-secret": ("replace a subscription's signing secret, with an overlap", add_rotate),
            "reseal": ("encrypt all stored secrets with the first of the keys", add_reseal),
        },
    )


def run(args: argparse.Namespace) -> int:
    return run_verb(
        args,
        {
            "add": _add,
            "list": _list,
            "show": _show,
            "pause": lambda args: _change(args, subscriptions.PAUSED, "is paused"),
            "resume": lambda args: _change(args, subscriptions.ACTIVE, "is active"),
            "remove": lambda args: _change(args, subscriptions.REMOVED, "is removed"),
            "rate": _rate,
            "policy": ordering.policy,
            "types": ordering.types,
            "test": ordering.test,
            "rotate-secret": rotate,
            "reseal": reseal,
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
    parser.add_argument("--rate", metavar="RATE", help="at most so many sends, like 10/s or 100/m")
    parser.add_argument("--description", metavar="TEXT", help="what it is for")
    add_secrets(parser)
    add_operator(parser, reason=False)
    add_json(parser)


def _add_list(parser: Parser) -> None:
    parser.add_argument("--tenant", type=values.tenant, metavar="NAME", help="only of this tenant")
    add_json(parser)


def _add_show(parser: Parser) -> None:
    _add_id(parser)
    add_json(parser)


def _add_change(parser: Parser) -> None:
    _add_id(parser)
    add_operator(parser)
    add_json(parser)


def _add_rate(parser: Parser) -> None:
    _add_id(parser)
    parser.add_argument("rate", type=values.rate, metavar="RATE", help="like 10/s or 100/m; none: as much as there is")
    add_operator(parser)
    add_json(parser)


def _add_id(parser: Parser) -> None:
    parser.add_argument("id", type=values.row_id, metavar="ID", help="the subscription's id")


def _add(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    try:
        wanted = subscriptions.new_subscription(
            types=args.type,
            to=args.to,
            tenant=args.tenant,
            policy=args.policy,
            rate=args.rate,
            description=args.description,
        )
    except SendonceError as error:
        raise WrongUse(str(error)) from None
    secrets = secrets_of(args, is_signed=scheme_of(wanted.destination) in SIGNED)
    sealed = secrets.sealed(sealer_of(args))
    row = with_store(args, lambda store: subscriptions.add(store, wanted, operator=operator, secrets=sealed))
    said = f"subscription {row.id}: {', '.join(row.types)} goes to {row.destination}"
    say_with_secret(args, row, said, secrets.signing if args.secret_file is None else None)
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
            Cell("" if each.rate is None else format_rate(each.rate)),
            Cell(each.tenant),
            Cell(each.description or ""),
            when(each.created_at, moment),
        ]
        for each in rows
    ]
    show_table(["ID", "STATE", "TYPES", "DESTINATION", "RATE", "TENANT", "DESCRIPTION", "ADDED"], cells)


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


def _show(args: argparse.Namespace) -> int:
    found = with_store(args, lambda store: subscriptions.look(store, args.id))
    row, moment = found.subscription, now()
    if args.json:
        say_json(as_dict(row) | {"secrets": found.secrets, "waiting": found.waiting})
        return 0
    names = ["id", "tenant", "destination", "state", "state_reason", "policy", "description", "created_at"]
    shown = [(name, getattr(row, name)) for name in names]
    shown.insert(2, ("types", ", ".join(row.types)))
    shown.insert(7, ("rate", None if row.rate is None else format_rate(row.rate)))
    show_fields(shown, moment)
    for secret in found.secrets:
        say(_secret_line(secret, moment))
    for reason, amount in found.waiting.items():
        more = "or more " if amount >= ROOM_CAP else ""
        say(f"{counted(amount, 'delivery', 'deliveries')} {more}wait{'s' if amount == 1 else ''} {_WAITING[reason]}")
    return 0


def _secret_line(secret: KeptSecret, moment: datetime) -> str:
    until = f", until {dated(secret.expires_at, moment)}" if secret.expires_at else ""
    return f"secret {secret.id}: {secret.kind}, since {dated(secret.created_at, moment)}{until}"


def _rate(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    wanted = subscriptions.Changes(rate=args.rate, drops_rate=args.rate is None)
    row = with_store(
        args, lambda store: subscriptions.apply(store, args.id, wanted, operator=operator, reason=args.reason)
    )
    if args.json:
        say_json(row)
    else:
        limit = "as much as there is" if row.rate is None else f"at most {format_rate(row.rate)}"
        say(f"subscription {row.id} is sent {limit}")
    return 0
