"""sendonce demo: see it survive what it must survive."""

import argparse

from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.failures import WrongUse
from sendonce.cli.settings import database_of

DESCRIPTION = """See it survive what it must survive, on SQLite: 60 orders of which 5 roll back; a receiver that is
down, slow, loses answers, is busy and refuses some; and the worker killed while it sends: the next one asks the
receiver about what was in flight before it sends anything again. Beside it a naive outbox in the same troubles; the
receiver counts both. Takes less than half a minute, and keeps its database: sendonce-demo.db in the working directory,
or the file that --database names."""


def add(subparsers: Subparsers) -> None:
    """Enter the command."""
    subparsers.add_parser("demo", help=COMMANDS["demo"][1], description=DESCRIPTION)


def run(args: argparse.Namespace) -> int:
    """Show it; 0 when everything promised has held."""
    from sendonce.compose import is_sqlite, sqlite_path
    from sendonce.devtools.demo.run import demonstrate

    # The environment's database is somebody's own: only one that was named for this is used.
    if getattr(args, "database", None) is None:
        demonstrate(None)
        return 0
    url = database_of(args)
    if not is_sqlite(url):
        raise WrongUse("the demonstration makes a SQLite database of its own; name a file, or leave --database out")
    demonstrate(sqlite_path(url))
    return 0
