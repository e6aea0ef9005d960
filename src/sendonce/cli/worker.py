"""sendonce worker: send what is due, until told to stop."""

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.parser import WrongUse
from sendonce.cli.sending import add_sending, add_setting, channels_for, settings_for
from sendonce.config.catalogue import RENAMED, TABLES
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from sendonce.config.model import Settings
    from sendonce.engine.daemon import Parts


def add(subparsers: "Subparsers") -> None:
    """Enter the command and its options."""
    parser = subparsers.add_parser(
        "worker",
        help=COMMANDS["worker"][1],
        description="Sends what is due, until SIGTERM or SIGINT. Any number may run, on any number of hosts.",
    )
    add_sending(parser)
    of_database = (TABLES["database"]["listen_url"], TABLES["database"]["instance"])
    for setting in (*TABLES["worker"].values(), *of_database, *TABLES["log"].values()):
        if setting.key != "app":
            add_setting(parser, setting)
    parser.add_argument("--listen", action=_Renamed, help=argparse.SUPPRESS)
    parser.add_argument("--until-idle", action="store_true", help="return when nothing is due now or in flight")
    parser.add_argument("--verbose", action="store_true", help="also log every settled batch")


class _Renamed(argparse.Action):
    """An option that has another name now."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        name = self.option_strings[0]
        parser.error(f"there is no option {name}; it is called {RENAMED[name]} now")


def run(args: argparse.Namespace) -> int:
    """Work; 0 when it stopped as told."""
    from sendonce.compose import check_readable
    from sendonce.engine import daemon

    settings = settings_for(args)
    try:
        check_readable(settings.database)
        parts = _parts(settings, until_idle=args.until_idle)
    except ConfigError as error:
        raise WrongUse(str(error)) from None
    _log_to_stderr(settings.log.format, verbose=args.verbose)
    _run_on_best_loop(daemon.run(parts))
    return 0


def _parts(settings: "Settings", *, until_idle: bool) -> "Parts":
    from dataclasses import replace

    from sendonce.embedded import parts_of

    parts = parts_of(settings, channels_for(settings))
    return replace(parts, config=replace(settings.worker, until_idle=until_idle))


def _log_to_stderr(format: str, *, verbose: bool) -> None:
    import logging

    handler = logging.StreamHandler()
    # A line of JSON says by itself when and how bad.
    handler.setFormatter(
        logging.Formatter("%(message)s" if format == "json" else "%(asctime)s %(levelname)s %(message)s")
    )
    logger = logging.getLogger("sendonce")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)


def _run_on_best_loop(work: "Coroutine[Any, Any, object]") -> None:
    import asyncio
    import gc
    from importlib.util import find_spec

    # Claims come and go by the thousand and hold no cycles: looking for cycles among them at every turn costs a tenth.
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    if find_spec("uvloop") is None:
        asyncio.run(work)
        return
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)
