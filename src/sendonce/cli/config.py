"""sendonce config and new-key: which settings are in force and where they came from, and a file to start from."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sendonce.cli.context import CONFIG, channels_for, configured, options_of, settings_for
from sendonce.cli.output import Line, Verbatim, paint
from sendonce.cli.parser import Parser
from sendonce.cli.tables import Cell, Table
from sendonce.cli.verbs import Arguments, verb

if TYPE_CHECKING:
    from pathlib import Path

    from sendonce.config.effective import InForce
    from sendonce.config.load import Settings


@dataclass(frozen=True, slots=True)
class _Shown:
    """The settings in force; or an example; or, with neither, that they are in order."""

    example: str | None = None
    file: str | None = None
    rows: "list[InForce] | None" = None


def _add_instead(parser: Parser) -> None:
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--defaults", action="store_true", help="also what nobody has set")
    instead.add_argument(
        "--check",
        action="store_true",
        help="only say whether a worker could start with them, and the consumers of [consume]",
    )
    instead.add_argument("--example", action="store_true", help="print a settings file with everything in it")


@verb(
    "config",
    "show which settings are in force, and where they came from",
    CONFIG,
    Arguments(_add_instead),
    about="Show the settings that were set, with where each came from: an option, a variable of the environment or the"
    " settings file. Secrets are not shown.",
)
def config(args: argparse.Namespace) -> _Shown:
    if args.example:
        from sendonce.config.catalogue import example

        return _Shown(example=example().rstrip("\n"))
    settings = settings_for(args)
    if args.check:
        _check(settings)
        return _Shown()
    path, rows = _in_force(args)
    return _Shown(file=str(path) if path else None, rows=rows)


@config.json
def _(shown: _Shown) -> object:
    if shown.example is not None:
        return {"example": shown.example}
    if shown.rows is None:
        return {"ok": True}
    rows = [{"setting": each.setting, "value": each.value, "from": each.origin} for each in shown.rows]
    return {"file": shown.file, "settings": rows}


@config.text
def _(shown: _Shown, defaults: bool) -> Iterator[Line]:
    if shown.example is not None:
        yield Verbatim(shown.example)
    elif shown.rows is None:
        yield "the settings are in order"
    else:
        yield f"settings file: {shown.file or 'none; there is no sendonce.toml here, and none was named'}"
        rows = [[Cell(each.setting), Cell(_text(each.value)), Cell(each.origin, "dim")] for each in shown.rows]
        yield Table(("SETTING", "VALUE", "FROM"), rows)
        if not defaults:
            yield paint("everything else has its default; see: sendonce config --defaults", "dim")


@verb(
    "new-key",
    "make a key to encrypt subscriptions' secrets with",
    about="Make a key for SENDONCE_SECRET_KEYS. Nothing is stored: keep it where you keep passwords.",
)
def new_key() -> str:
    from sendonce import sealing

    return sealing.new_key()


new_key.json(lambda key: {"key": key})
new_key.text(lambda key: (Verbatim(key),))


def _in_force(args: argparse.Namespace) -> "tuple[Path | None, list[InForce]]":
    import os

    from sendonce.config.effective import in_force
    from sendonce.config.sources import Everything, find

    path = find(args.config, os.environ)
    return path, in_force(Everything(path, os.environ, options_of(args)), defaults=args.defaults)


def _check(settings: "Settings") -> None:
    """Build what a worker and consumers would be built from, and open nothing."""
    import asyncio

    from sendonce.config.consumers import consumers_of, load_consumers
    from sendonce.embedded import notifier_of
    from sendonce.engine.alerter import transports_of

    channels = channels_for(settings)
    try:
        configured(lambda: notifier_of(settings))
        configured(lambda: transports_of(settings.alerts, channels, ""))
        if (app := settings.consume.app) is not None:
            configured(lambda: consumers_of(settings, load_consumers(app)))
    finally:
        asyncio.run(channels.close())


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
