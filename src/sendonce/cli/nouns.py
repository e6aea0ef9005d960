"""A command that is a noun with verbs of its own, like `deliveries list`."""

import argparse
from collections.abc import Callable, Mapping

from sendonce.cli.commands import COMMANDS, Subparsers

Run = Callable[[argparse.Namespace], int]
VERBS = "verb"


def add_noun(
    subparsers: Subparsers, name: str, description: str, verbs: Mapping[str, tuple[str, Callable[..., None]]]
) -> None:
    """Enter a noun; `verbs` has, by name, what the overview says of it and what adds its options to its parser."""
    parser = subparsers.add_parser(name, help=COMMANDS[name][1], description=description)
    inner = parser.add_subparsers(dest=VERBS, metavar="|".join(verbs), required=True)
    for verb, (summary, add_options) in verbs.items():
        add_options(inner.add_parser(verb, help=summary, description=summary[0].upper() + summary[1:] + "."))


def run_verb(args: argparse.Namespace, verbs: Mapping[str, Run]) -> int:
    return verbs[getattr(args, VERBS)](args)
