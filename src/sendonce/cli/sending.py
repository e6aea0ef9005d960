"""What `worker` and `reconcile` send and ask through: the settings file, and one's own channels."""

import argparse
from typing import TYPE_CHECKING

from sendonce.cli.failures import WrongUse
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from sendonce.channels.registry import Channels
    from sendonce.cli.parser import Parser
    from sendonce.sealing import Sealer
    from sendonce.settings.model import Settings


def add_sending(parser: "Parser") -> None:
    """The options that name the channels: --config and --app."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the settings file; else SENDONCE_CONFIG, else ./sendonce.toml if it is there",
    )
    parser.add_argument(
        "--app", metavar="MODULE:NAME", help="take over your own channels: a sendonce.channels.Channels"
    )


def settings_for(args: argparse.Namespace) -> "Settings":
    """The settings file with what the environment says; WrongUse names the file and the key that is wrong."""
    import os

    from sendonce.settings.load import find, load

    try:
        return load(find(args.config, os.environ), os.environ)
    except ConfigError as error:
        raise WrongUse(str(error)) from None


def sealer_for(args: argparse.Namespace) -> "Sealer":
    """What seals the subscriptions' secrets. Nothing else of the settings file is looked at, nor needed for it."""
    import os

    from sendonce.settings.load import find, load_sealer

    try:
        return load_sealer(find(args.config, os.environ), os.environ)
    except ConfigError as error:
        raise WrongUse(str(error)) from None


def channels_for(args: argparse.Namespace, settings: "Settings | None" = None) -> "Channels":
    """The channels that come with sendonce, those of the settings file, and over them those of --app."""
    from sendonce.cli.apps import load_channels
    from sendonce.settings.channels import channels_of

    try:
        channels = channels_of(settings or settings_for(args))
        if args.app is not None:
            channels.update(load_channels(args.app))
    except ConfigError as error:
        raise WrongUse(str(error)) from None
    return channels
