"""sendonce stop: hold back sends, on every host."""

import argparse

from sendonce.admin.stops import stop, stop_sentence
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.options import add_operator
from sendonce.cli.output import say
from sendonce.cli.running import with_store
from sendonce.cli.scoping import add_scope, scope_of
from sendonce.cli.settings import operator_of


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "stop",
        help=COMMANDS["stop"][1],
        description="Hold back all further sends, within a second and on every host, until they are resumed.",
    )
    add_scope(parser)
    add_operator(parser)


def run(args: argparse.Namespace) -> int:
    scope, value = scope_of(args)
    operator = operator_of(args)
    say(stop_sentence(with_store(args, lambda store: stop(store, scope, value, operator=operator, reason=args.reason))))
    return 0
