"""sendonce migrate: make or update the tables."""

import argparse

from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.output import say
from sendonce.cli.settings import database_of
from sendonce.compose import display_url, migrate, migration_sql, schema_version


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "migrate",
        help=COMMANDS["migrate"][1],
        description="Bring the database to the newest schema. Safe to run twice, and from several hosts at once.",
    )
    parser.add_argument("--sql", action="store_true", help="print the script for other tools and touch nothing")


def run(args: argparse.Namespace) -> int:
    url = database_of(args)
    if args.sql:
        say(migration_sql(url).rstrip("\n"))
        return 0
    import asyncio

    applied, version = asyncio.run(_migrate(url))
    for name in applied:
        say(f"applied {name}")
    said = f"{display_url(url)} is now at schema" if applied else "already at schema"
    say(f"{said} {version}")
    return 0


async def _migrate(url: str) -> tuple[list[str], int]:
    return await migrate(url), await schema_version(url)
