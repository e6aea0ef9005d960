"""The settings as a command sees them: the file, the environment, and over them the options that were given."""

import argparse
from typing import TYPE_CHECKING

from sendonce.cli.failures import WrongUse
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from sendonce.channels.registry import Channels
    from sendonce.cli.parser import Parser
    from sendonce.config.model import Settings
    from sendonce.config.setting import Setting
    from sendonce.sealing import SecretBox


def add_config(parser: "Parser") -> None:
    """The option that names the settings file."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the settings file; else SENDONCE_CONFIG, else ./sendonce.toml if it is there",
    )


def add_sending(parser: "Parser") -> None:
    """The options that say what is sent through, and how: --config, --app and --policy."""
    from sendonce.config.catalogue import TABLES

    add_config(parser)
    add_setting(parser, TABLES["worker"]["app"])
    parser.add_argument("--policy", metavar="JSON", help='over the default policy, like {"max_attempts": 5}')


def add_setting(parser: "Parser", setting: "Setting") -> None:
    """The option of a setting. What it is given is checked with all settings, not here."""
    from sendonce.config import kinds

    about = setting.about.replace("`", "").removesuffix(".")
    default = "" if setting.default in (None, False) else f" (default {setting.kind.shown(setting.default)})"
    help = f"{about[0].lower()}{about[1:]}{default}"
    if setting.kind is kinds.FLAG:
        parser.add_argument(setting.option, action=argparse.BooleanOptionalAction, help=help)
    else:
        parser.add_argument(setting.option, metavar=setting.kind.metavar, help=help)


def options_of(args: argparse.Namespace) -> dict[str, object]:
    """The options that were given and set a setting, by their names."""
    from sendonce.config.catalogue import POLICY_OPTION, SETTINGS

    names = [*filter(None, (each.option for each in SETTINGS)), POLICY_OPTION]
    given = {name: getattr(args, name.removeprefix("--").replace("-", "_"), None) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def settings_for(args: argparse.Namespace) -> "Settings":
    """All settings; WrongUse says which one is wrong, and where it stands."""
    import os

    from sendonce.config.load import find, load

    try:
        return load(find(args.config, os.environ), os.environ, options_of(args))
    except ConfigError as error:
        raise WrongUse(str(error)) from None


def sealer_for(args: argparse.Namespace) -> "SecretBox":
    """What seals the subscriptions' secrets. Nothing else of the settings is looked at, nor needed for it."""
    import os

    from sendonce.config.load import find, load_sealer

    try:
        return load_sealer(find(args.config, os.environ), os.environ)
    except ConfigError as error:
        raise WrongUse(str(error)) from None


def channels_for(settings: "Settings") -> "Channels":
    """The channels that come with sendonce, those of the settings, and over them one's own."""
    from sendonce.config.channels import channels_of

    try:
        return channels_of(settings)
    except ConfigError as error:
        raise WrongUse(str(error)) from None
