"""What a verb works on: the database that is named, who is acting, and the settings with the options over them."""

import argparse
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from sendonce.cli.parser import Parser, WrongUse
from sendonce.cli.verbs import Arguments, argument
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from sendonce.admin.api import Admin
    from sendonce.channels.registry import Channels
    from sendonce.config.load import Settings
    from sendonce.config.types import Setting
    from sendonce.sealing import SecretBox

Answer = TypeVar("Answer")


def database_of(args: argparse.Namespace) -> str:
    """Return the database's address, checked: --database, else SENDONCE_DATABASE, else that of the settings file.

    Else it is a file in the working directory. The settings file is read only when nothing nearer says it, so that a
    mistake in it keeps nobody from looking at a database.
    """
    from sendonce.compose import check_readable
    from sendonce.config.sources import find, load_database

    given: str | None = getattr(args, "database", None)
    named = os.environ.get("SENDONCE_DATABASE", "").strip()

    def address() -> str:
        if given is not None or named:
            url = load_database(None, {"SENDONCE_DATABASE": named}, {} if given is None else {"--database": given})
        else:
            url = load_database(find(getattr(args, "config", None), os.environ), os.environ, {})
        check_readable(url)
        return url

    return configured(address)


def operator_of(args: argparse.Namespace) -> str:
    """Return who is acting: --operator, else SENDONCE_OPERATOR, else user@host."""
    given: str | None = args.operator
    return given or os.environ.get("SENDONCE_OPERATOR", "").strip()[:200] or f"{_user()}@{os.uname().nodename}"


@asynccontextmanager
async def admin_for(args: argparse.Namespace) -> AsyncIterator["Admin"]:
    """Open an Admin for whoever acts, and close it whatever happens."""
    from sendonce.admin.api import Admin
    from sendonce.admin.session import AddressSession

    # Not Admin.aopen: that checks the keys of the settings file, which most verbs need not.
    session = AddressSession(database_of(args), getattr(args, "config", None), None)
    try:
        operator = operator_of(args) if hasattr(args, "operator") else ""
        yield Admin(session, operator=operator)
    finally:
        await session.close()


CONFIG = argument(
    "--config", metavar="FILE", help="the settings file; else SENDONCE_CONFIG, else ./sendonce.toml if it is there"
)


def settings_arguments(
    wanted: "Callable[[], Sequence[Setting]]", **read: Callable[[argparse.Namespace], object]
) -> Arguments:
    """Declare --config, --policy, and the options of these settings. They are checked with all settings, not here."""

    def add(parser: Parser) -> None:
        CONFIG.add(parser)
        for each in wanted():
            _add_setting(parser, each)
            if (each.table, each.key) == ("worker", "app"):
                parser.add_argument(
                    "--policy", metavar="JSON", help='over the default policy, like {"max_attempts": 5}'
                )

    return Arguments(add, read)


def _add_setting(parser: Parser, setting: "Setting") -> None:
    from sendonce.config import types

    about = setting.about.replace("`", "").removesuffix(".")
    default = "" if setting.default in (None, False) else f" (default {setting.kind.shown(setting.default)})"
    help = f"{about[0].lower()}{about[1:]}{default}"
    if setting.kind is types.FLAG:
        parser.add_argument(setting.option, action=argparse.BooleanOptionalAction, help=help)
    else:
        parser.add_argument(setting.option, metavar=setting.kind.metavar, help=help)


def options_of(args: argparse.Namespace) -> dict[str, object]:
    """Return the options that were given and set a setting, by their names."""
    from sendonce.config.catalogue import POLICY_OPTION, SETTINGS

    names = [*filter(None, (each.option for each in SETTINGS)), POLICY_OPTION]
    given = {name: getattr(args, name.removeprefix("--").replace("-", "_"), None) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def settings_for(args: argparse.Namespace) -> "Settings":
    """Return all settings; WrongUse says which one is wrong, and where it stands."""
    from sendonce.config.load import find, load

    return configured(lambda: load(find(args.config, os.environ), os.environ, options_of(args)))


def sealer_for(args: argparse.Namespace) -> "SecretBox":
    """Return what encrypts the subscriptions' secrets. Nothing else of the settings is looked at, nor needed for it."""
    from sendonce.config.load import find, load_sealer

    return configured(lambda: load_sealer(find(args.config, os.environ), os.environ))


def channels_for(settings: "Settings") -> "Channels":
    """Return the channels that come with sendonce, those of the settings, and over them one's own."""
    from sendonce.config.channels import channels_of

    return configured(lambda: channels_of(settings))


def configured(work: Callable[[], Answer]) -> Answer:
    """Return what `work` answers; what is wrong with the settings or an option is wrong use."""
    try:
        return work()
    except ConfigError as error:
        raise WrongUse(str(error)) from None


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user without a name
        return f"uid{os.getuid()}"
