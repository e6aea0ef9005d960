"""sendonce consume: feed handlers from brokers, until told to stop."""

import argparse
from typing import TYPE_CHECKING

from sendonce.cli.context import configured, settings_arguments, settings_for
from sendonce.cli.daemons import log_to_stderr, run_on_best_loop
from sendonce.cli.parser import WrongUse
from sendonce.cli.verbs import argument, verb
from sendonce.config.catalogue import TABLES

if TYPE_CHECKING:
    from sendonce.config.load import Settings
    from sendonce.config.types import Setting
    from sendonce.consumer.daemon import Parts


def _settings() -> "list[Setting]":
    return [*TABLES["consume"].values(), TABLES["database"]["instance"], TABLES["log"]["format"]]


@verb(
    "consume",
    "feed your handlers from message brokers",
    argument("names", nargs="*", metavar="NAME", help="these consumers only"),
    settings_arguments(_settings),
    argument("--until-idle", action="store_true", help="return when nothing comes and nothing is due"),
    argument("--verbose", action="store_true", help="also log what was handled, once a second"),
    about="Feeds your handlers from message brokers, until SIGTERM or SIGINT; a second signal ends it at once."
    " Any number may run, on any number of hosts.",
    has_json=False,
)
def consume(args: argparse.Namespace, names: list[str], until_idle: bool, verbose: bool) -> None:
    from sendonce.compose import check_readable
    from sendonce.consumer import daemon

    settings = settings_for(args)
    configured(lambda: check_readable(settings.database))
    parts = configured(lambda: _parts(settings, names, until_idle=until_idle))
    log_to_stderr(settings.log.format, verbose=verbose)
    if run_on_best_loop(daemon.run(parts)):
        _leave()


def _parts(settings: "Settings", names: list[str], *, until_idle: bool) -> "Parts":
    from dataclasses import replace

    from sendonce.config.consumers import load_consumers
    from sendonce.embedded import consuming_of

    app = settings.consume.app
    if app is None:
        raise WrongUse("say whose consumers: --app MODULE:NAME, or app in [consume]")
    return replace(consuming_of(settings, load_consumers(app), names), until_idle=until_idle)


def _leave() -> None:
    """End although handlers may be left in their threads: what they have not committed is rolled back."""
    import logging
    import os

    logging.shutdown()
    os._exit(0)
