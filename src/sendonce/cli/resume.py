"""sendonce resume: let stopped sends go on."""

import argparse

from sendonce.admin.stops import check_scope, resume, spelled
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.options import add_operator
from sendonce.cli.output import say
from sendonce.cli.running import with_store
from sendonce.cli.scoping import add_scope, scope_of
from sendonce.cli.settings import operator_of


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "resume",
        help=COMMANDS["resume"][1],
        description="Lift a stop: what it held back is due again. Say the same scope that was stopped.",
    )
    add_scope(parser)
    add_operator(parser, reason=False)


def run(args: argparse.Namespace) -> int:
    scope, value = scope_of(args)
    operator = operator_of(args)
    with_store(args, lambda store: resume(store, scope, value, operator=operator))
    say(f"resumed: {spelled(*check_scope(scope, value))} is sent again")
    return 0
