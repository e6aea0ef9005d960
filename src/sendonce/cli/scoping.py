"""The options that say what a stop covers."""

import argparse

from sendonce.admin.stops import SCOPES, check_scope
from sendonce.cli import values
from sendonce.cli.failures import WrongUse
from sendonce.cli.parser import Parser
from sendonce.errors import ConfigError


def add_scope(parser: Parser) -> None:
    scope = parser.add_mutually_exclusive_group(required=True)
    scope.add_argument("--all", action="store_true", default=None, help="everything")
    scope.add_argument("--channel", metavar="NAME", help="a channel, like mailto or https")
    scope.add_argument("--destination", metavar="URI", help="one destination, or subscription:42")
    scope.add_argument("--tenant", type=values.tenant, metavar="NAME", help="one tenant")


def scope_of(args: argparse.Namespace) -> tuple[str, str]:
    scope = next(each for each in SCOPES if getattr(args, each) is not None)
    try:
        return check_scope(scope, str(getattr(args, scope)))
    except ConfigError as error:
        raise WrongUse(str(error)) from None
