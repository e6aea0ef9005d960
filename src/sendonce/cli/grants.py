"""sendonce grants: print the database roles with the least rights."""

import argparse

from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.failures import WrongUse
from sendonce.cli.output import say
from sendonce.compose import grants_sql


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "grants",
        help=COMMANDS["grants"][1],
        description="Print a script of PostgreSQL roles with the least rights: optional, and never applied by us.",
    )
    parser.add_argument("--sql", action="store_true", help="print the script (required)")


def run(args: argparse.Namespace) -> int:
    if not args.sql:
        raise WrongUse("grants are printed and never applied; say: sendonce grants --sql")
    say(grants_sql().rstrip("\n"))
    return 0
