"""Which ones: by id, or by a filter and then as an operation that can be paused and taken up again."""

import argparse

from sendonce.cli import values
from sendonce.cli.failures import WrongUse
from sendonce.cli.parser import Parser
from sendonce.domain.deliveries import ReasonClass
from sendonce.domain.rates import format_rate
from sendonce.store.bulk import DEFAULT_RATE
from sendonce.store.filters import Filter

_FILTERS = ("type", "destination", "tenant", "given_up_as", "since", "until")
_ONLY_WITH_FILTER = {"dry_run": "--dry-run", "yes": "--yes", "rate": "--rate"}


def add_selection(parser: Parser, what: str, *, given_up_as: bool = False) -> None:
    """Ids, or the options of a filter and of an operation."""
    parser.add_argument(
        "ids", nargs="*", type=values.row_id, metavar="ID", help=f"the {what}'s id; or a filter instead"
    )
    parser.add_argument("--all", action="store_true", help="all there are, without a filter")
    parser.add_argument(
        "--type", type=values.type_pattern, metavar="TYPE", help="of this event type, or family: order.*"
    )
    parser.add_argument("--destination", type=values.destination, metavar="URI", help="to this destination")
    parser.add_argument("--tenant", type=values.tenant, metavar="NAME", help="of this tenant")
    if given_up_as:
        reasons = ", ".join(ReasonClass)
        parser.add_argument(
            "--given-up-as",
            type=values.reason_class,
            metavar="CLASS",
            help=f"as one of: {reasons}; what was cancelled is left out unless you say so here",
        )
    for name, side in (("since", "not before"), ("until", "before")):
        parser.add_argument(
            f"--{name}", type=values.past, metavar="WHEN", help=f"{side} 30m, 2h, 3d ago, or an ISO time (UTC)"
        )
    parser.add_argument("--dry-run", action="store_true", help="count what matches the filter, and do nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask before what matches the filter is touched")
    parser.add_argument(
        "--rate",
        type=values.some_rate,
        metavar="RATE",
        help=f"at most so many of what matches, like 100/s (default {format_rate(DEFAULT_RATE)})",
    )


def selection_of(args: argparse.Namespace) -> Filter | None:
    """The filter that was given; None when ids were. WrongUse when it was neither, or both."""
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
    return Filter(
        type=args.type,
        destination=args.destination,
        tenant=args.tenant,
        reason=given["given_up_as"],
        since=args.since,
        until=args.until,
        even_if_sent=args.even_if_sent,
    )
