"""sendonce doctor: whether the database and its surroundings are fit for the work."""

import argparse
from typing import TYPE_CHECKING

from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.failures import CouldNotLook, WrongUse
from sendonce.cli.options import add_json
from sendonce.cli.output import paint, say, say_json
from sendonce.cli.sending import add_config
from sendonce.cli.settings import database_of
from sendonce.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from sendonce.admin.doctor import Diagnosis, Limits

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help=COMMANDS["doctor"][1],
        description="Look at the database and what surrounds it: its settings, what holds vacuum back, what is missing,"
        " clocks, connections, leases, disk. Reads only.",
    )
    add_config(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    import asyncio

    from sendonce.admin.doctor import Level, examine
    from sendonce.compose import display_url

    url = database_of(args)
    limits = _limits(args)
    try:
        found = asyncio.run(examine(url, limits))
    except StoreError as error:
        raise CouldNotLook(str(error)) from error
    if args.json:
        say_json(
            [{"name": each.name, "level": each.level, "sentence": each.sentence, "to_do": each.to_do} for each in found]
        )
    else:
        say(display_url(url))
        for each in found:
            _say(each)
    return 1 if any(each.level is Level.PROBLEM for each in found) else 0


def _limits(args: argparse.Namespace) -> "Limits":
    """What the settings here say of leases, sends and retention."""
    import os

    from sendonce.admin.doctor import Limits
    from sendonce.config.load import find, load_limits, load_retention

    try:
        path = find(args.config, os.environ)
        lease, timeout = load_limits(path, os.environ)
        retention = load_retention(path, os.environ)
    except ConfigError as error:
        raise WrongUse(str(error)) from None
    return Limits(lease, timeout, {stage.value: age for stage, age in retention.stages.items()})


def _say(each: "Diagnosis") -> None:
    say(f"  {paint(f'{each.level:<7}', _COLOURS[each.level])}  {each.name}: {each.sentence}")
    if each.to_do:
        say(f"           to do: {each.to_do}")
