"""What the environment says where an option does not: the database, the operator, whether to show traces."""

import argparse
import os

from sendonce.cli.failures import WrongUse
from sendonce.compose import check_url
from sendonce.errors import ConfigError

DEFAULT_DATABASE = "sqlite:///sendonce.db"


def database_of(args: argparse.Namespace) -> str:
    """The database's address, checked: --database, else SENDONCE_DATABASE, else a file in the working directory."""
    given: str | None = getattr(args, "database", None)
    named = os.environ.get("SENDONCE_DATABASE") or DEFAULT_DATABASE
    try:
        return check_url(named if given is None else given)
    except ConfigError as error:
        raise WrongUse(str(error)) from None


def operator_of(args: argparse.Namespace) -> str:
    """Who is acting: --operator, else SENDONCE_OPERATOR, else user@host."""
    given: str | None = args.operator
    return given or os.environ.get("SENDONCE_OPERATOR", "").strip()[:200] or f"{_user()}@{os.uname().nodename}"


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user without a name
        return f"uid{os.getuid()}"
