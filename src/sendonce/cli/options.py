"""Options that several commands share."""

import argparse

from sendonce.cli import values
from sendonce.cli.parser import Parser
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.store.filters import Filter

DEFAULT_LIMIT = 50


def add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def add_filter(parser: Parser, *, status: bool = False, destination: bool = False, reason: bool = False) -> None:
    """The options of a list: --type --tenant --since --limit, and those that apply to it."""
    if status:
        states = ", ".join(values.spelled_state(each) for each in DeliveryState)
        parser.add_argument("--status", type=values.state, metavar="STATUS", help=f"only these: {states}")
    parser.add_argument("--type", type=values.event_type, metavar="TYPE", help="only of this event type")
    if destination:
        parser.add_argument("--destination", type=values.destination, metavar="URI", help="only to this destination")
    if reason:
        reasons = ", ".join(ReasonClass)
        parser.add_argument("--reason", type=values.reason_class, metavar="CLASS", help=f"only given up as: {reasons}")
    parser.add_argument("--tenant", type=values.tenant, metavar="NAME", help="only of this tenant")
    parser.add_argument(
        "--since",
        type=values.past,
        metavar="WHEN",
        help="only since 30m, 2h, 3d ago, or an ISO time (UTC if it says none)",
    )
    parser.add_argument(
        "--limit",
        type=values.limit,
        default=DEFAULT_LIMIT,
        metavar="N",
        help=f"at most so many, the newest first (default {DEFAULT_LIMIT})",
    )
    add_json(parser)


def filter_of(args: argparse.Namespace) -> Filter:
    return Filter(
        status=getattr(args, "status", None),
        type=args.type,
        destination=getattr(args, "destination", None),
        tenant=args.tenant,
        since=args.since,
        reason=getattr(args, "reason", None),
        limit=args.limit,
    )


def add_operator(parser: Parser, *, reason_required: bool = False, reason: bool = True) -> None:
    """Who acts and why: kept in the operations log."""
    if reason:
        parser.add_argument(
            "--reason",
            type=values.reason,
            required=reason_required,
            metavar="TEXT",
            help="why, for the operations log" + (" (required)" if reason_required else ""),
        )
    parser.add_argument(
        "--operator",
        type=values.operator,
        metavar="NAME",
        help="who, for the operations log; else SENDONCE_OPERATOR, else user@host",
    )


def add_even_if_sent(parser: Parser) -> None:
    parser.add_argument("--even-if-sent", action="store_true", help="also what was, or may have been, sent before")


def add_ids(parser: Parser, what: str) -> None:
    parser.add_argument("ids", nargs="+", type=values.row_id, metavar="ID", help=f"the {what}'s id")
