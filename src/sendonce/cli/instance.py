"""sendonce instance: show or give the name of a database, so that a copy of it sends nothing."""

import argparse
import re
from typing import TYPE_CHECKING

from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.failures import WrongUse
from sendonce.cli.options import add_json, add_operator
from sendonce.cli.output import say, say_json
from sendonce.cli.running import with_store
from sendonce.cli.settings import operator_of

if TYPE_CHECKING:
    from sendonce.store.ports import Store

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "instance",
        help=COMMANDS["instance"][1],
        description="A database that has a name is worked on only by workers whose settings say the same: [database]"
        " instance, or SENDONCE_INSTANCE. A copy of it elsewhere keeps the name and sends nothing. Set it in the"
        " workers' settings first, then here. Needs the rights of the tables' owner.",
    )
    parser.add_argument("name", nargs="?", help="the name to give it: small letters, digits, dots, dashes, underscores")
    parser.add_argument("--none", action="store_true", help="take its name away")
    add_operator(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.name is not None and args.none:
        raise WrongUse("give a name, or take it away with --none; not both")
    if args.name is not None and not _NAME.fullmatch(args.name):
        raise WrongUse("a name has up to 63 small letters, digits, dots, dashes and underscores, like production")
    operator = operator_of(args)
    name = with_store(args, lambda store: _name(store, args, operator))
    if args.json:
        say_json({"instance": name})
    elif name is None:
        say("this database has no name: workers work on it whatever their settings say")
    else:
        say(f"this database is {name!r}: only workers whose settings say so send from it")
    return 0


async def _name(store: "Store", args: argparse.Namespace, operator: str) -> str | None:
    if args.name is not None or args.none:
        await store.name_instance(args.name, operator=operator, reason=args.reason)
    return await store.instance()
