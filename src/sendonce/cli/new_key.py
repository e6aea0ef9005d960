"""sendonce new-key: a key with which subscriptions' secrets are encrypted where they are stored."""

import argparse

from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.output import say


def add(subparsers: Subparsers) -> None:
    subparsers.add_parser(
        "new-key",
        help=COMMANDS["new-key"][1],
        description="Make a key for SENDONCE_SECRET_KEYS. Nothing is stored: keep it where you keep passwords.",
    )


def run(args: argparse.Namespace) -> int:
    from sendonce.sealing import new_key

    say(new_key())
    return 0
