"""What commands need to know that send nothing: the database, and who is acting."""

import argparse
import os

from sendonce.cli.failures import WrongUse
from sendonce.errors import ConfigError


def database_of(args: argparse.Namespace) -> str:
    """The database's address, checked: --database, else SENDONCE_DATABASE, else [database] url of the settings file.

    Else it is a file in the working directory. The settings file is read only when nothing nearer says it, so that a
    mistake in it keeps nobody from looking at a database.
    """
    from sendonce.compose import check_readable
    from sendonce.config.database import load_database
    from sendonce.config.files import find

    given: str | None = getattr(args, "database", None)
    named = os.environ.get("SENDONCE_DATABASE", "").strip()
    try:
        if given is not None or named:
            url = load_database(None, {"SENDONCE_DATABASE": named}, {} if given is None else {"--database": given})
        else:
            url = load_database(find(getattr(args, "config", None), os.environ), os.environ, {})
        check_readable(url)
    except ConfigError as error:
        raise WrongUse(str(error)) from None
    return url


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
