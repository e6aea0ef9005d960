"""sendonce worker: send what is due, until told to stop."""

import argparse
from typing import TYPE_CHECKING

from sendonce.cli.context import channels_for, configured, settings_arguments, settings_for
from sendonce.cli.daemons import log_to_stderr, run_on_best_loop
from sendonce.cli.options import renamed
from sendonce.cli.verbs import argument, verb
from sendonce.config.catalogue import RENAMED, TABLES

if TYPE_CHECKING:
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


@verb(
    "worker",
    "send what is due",
    settings_arguments(_settings),
    argument("--until-idle", action="store_true", help="return when nothing is due now or in flight"),
    argument("--verbose", action="store_true", help="also log every settled batch"),
    renamed("--listen", RENAMED["--listen"]),
    about="Sends what is due, until SIGTERM or SIGINT. Any number may run, on any number of hosts.",
    has_json=False,
)
def worker(args: argparse.Namespace, until_idle: bool, verbose: bool) -> None:
    from sendonce.compose import check_readable
    from sendonce.engine import daemon

    settings = settings_for(args)
    configured(lambda: check_readable(settings.database))
    parts = configured(lambda: _parts(settings, until_idle=until_idle))
    log_to_stderr(settings.log.format, verbose=verbose)
    run_on_best_loop(daemon.run(parts))


def _parts(settings: "Settings", *, until_idle: bool) -> "Parts":
    from dataclasses import replace

    from sendonce.embedded import parts_of

    parts = parts_of(settings, channels_for(settings))
    return replace(parts, config=replace(settings.worker, until_idle=until_idle))
