"""sendonce config: what is in force and where it came from, whether it is right, and a file to start from."""

import argparse
from typing import TYPE_CHECKING

from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.failures import WrongUse
from sendonce.cli.options import add_json
from sendonce.cli.output import paint, say, say_json
from sendonce.cli.sending import add_config, channels_for, options_of, settings_for
from sendonce.cli.tables import Cell, show_table
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from sendonce.config.in_force import InForce
    from sendonce.config.model import Settings


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "config",
        help=COMMANDS["config"][1],
        description="Show the settings that were set, with where each came from: an option, a variable of the"
        " environment or the settings file. Secrets are not shown.",
    )
    add_config(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--defaults", action="store_true", help="also what nobody has set")
    instead.add_argument("--check", action="store_true", help="only say whether a worker could start with them")
    instead.add_argument("--example", action="store_true", help="print a settings file with everything in it")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.example:
        from sendonce.config.example import example

        say(example().rstrip("\n"))
        return 0
    settings = settings_for(args)
    if args.check:
        _check(settings)
        say_json({"ok": True}) if args.json else say("the settings are in order")
        return 0
    path, rows = _in_force(args)
    if args.json:
        found = [{"setting": each.setting, "value": each.value, "from": each.origin} for each in rows]
        say_json({"file": path and str(path), "settings": found})
    else:
        _show(path, rows, defaults=args.defaults)
    return 0


def _in_force(args: argparse.Namespace) -> "tuple[Path | None, list[InForce]]":
    import os

    from sendonce.config.files import find
    from sendonce.config.given import Everything
    from sendonce.config.in_force import in_force

    path = find(args.config, os.environ)
    return path, in_force(Everything(path, os.environ, options_of(args)), defaults=args.defaults)


def _check(settings: "Settings") -> None:
    """Build what a worker would be built from, and open nothing."""
    import asyncio

    from sendonce.embedded import doorbell_of
    from sendonce.engine.alert_transports import transports_of

    channels = channels_for(settings)
    try:
        doorbell_of(settings)
        transports_of(settings.alerts, channels, "")
    except ConfigError as error:
        raise WrongUse(str(error)) from None
    finally:
        asyncio.run(channels.close())


def _show(path: "Path | None", rows: "list[InForce]", *, defaults: bool) -> None:
    say(f"settings file: {path or 'none; there is no sendonce.toml here, and none was named'}")
    show_table(
        ("SETTING", "VALUE", "FROM"),
        [[Cell(each.setting), Cell(_text(each.value)), Cell(each.origin, "dim")] for each in rows],
    )
    if not defaults:
        say(paint("everything else has its default; see: sendonce config --defaults", "dim"))


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
