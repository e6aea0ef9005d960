"""sendonce worker: send what is due, until told to stop."""

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from sendonce.cli.context import channels_for, configured, settings_arguments, settings_for
from sendonce.cli.verbs import argument, verb
from sendonce.config.catalogue import RENAMED, TABLES

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from sendonce.config.load import Settings
    from sendonce.config.types import Setting
    from sendonce.engine.daemon import Parts


def _settings() -> "list[Setting]":
    """The application first: --policy stands beside it."""
    table = TABLES["worker"]
    of_database = (TABLES["database"]["listen_url"], TABLES["database"]["instance"])
    return [
        table["app"],
        *(each for each in table.values() if each.key != "app"),
        *of_database,
        *TABLES["log"].values(),
    ]


class _Renamed(argparse.Action):
    """An option that has another name now."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        name = self.option_strings[0]
        parser.error(f"there is no option {name}; it is called {RENAMED[name]} now")


@verb(
    "worker",
    "send what is due",
    settings_arguments(_settings),
    argument("--until-idle", action="store_true", help="return when nothing is due now or in flight"),
    argument("--verbose", action="store_true", help="also log every settled batch"),
    argument("--listen", action=_Renamed, help=argparse.SUPPRESS),
    about="Sends what is due, until SIGTERM or SIGINT. Any number may run, on any number of hosts.",
    has_json=False,
)
def worker(args: argparse.Namespace, until_idle: bool, verbose: bool) -> None:
    from sendonce.compose import check_readable
    from sendonce.engine import daemon

    settings = settings_for(args)
    configured(lambda: check_readable(settings.database))
    parts = configured(lambda: _parts(settings, until_idle=until_idle))
    _log_to_stderr(settings.log.format, verbose=verbose)
    _run_on_best_loop(daemon.run(parts))


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
