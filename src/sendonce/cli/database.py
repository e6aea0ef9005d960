"""sendonce migrate, grants and instance: the tables, who may use them, and the name of a database."""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sendonce.cli.context import database_of
from sendonce.cli.options import OPERATOR, WHY
from sendonce.cli.output import Line, Verbatim
from sendonce.cli.parser import WrongUse
from sendonce.cli.prompt import Bar, progress
from sendonce.cli.verbs import argument, verb
from sendonce.compose import amigrate, display_url, grants_sql, migration_sql, schema_version
from sendonce.domain.texts import harmless
from sendonce.store.migrations import Applying, Backfill, News, Waiting

if TYPE_CHECKING:
    from sendonce.admin.api import Admin

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Migrated:
    """What was applied and back-filled, and the version now; or only the script."""

    sql: str | None = None
    database: str = ""
    applied: tuple[str, ...] = ()
    backfilled: tuple[str, ...] = ()
    version: int = 0


@verb(
    "migrate",
    "make or update the tables",
    argument("--sql", action="store_true", help="print the script for other tools and touch nothing"),
    about="Bring the database to the newest schema while programs of the version before go on, and fill in what that"
    " needs. Safe to run twice, and from several hosts at once; what was broken off is taken up again.",
)
def migrate_database(args: argparse.Namespace, sql: bool) -> _Migrated:
    url = database_of(args)
    if sql:
        return _Migrated(migration_sql(url).rstrip("\n"))
    import asyncio

    watched = _Watched()
    try:
        applied, version = asyncio.run(_migrate(url, watched))
    except KeyboardInterrupt:
        _note(f"sendonce: interrupted; {watched.so_far()}")
        raise
    progress("")
    return _Migrated(None, display_url(url), tuple(applied), tuple(watched.finished), version)


@migrate_database.json
def _(done: _Migrated) -> object:
    if done.sql is not None:
        return {"sql": done.sql}
    return {"applied": done.applied, "backfilled": done.backfilled, "schema_version": done.version}


@migrate_database.text
def _(done: _Migrated) -> Iterator[Line]:
    if done.sql is not None:
        yield Verbatim(done.sql)
        return
    yield from (f"applied {name}" for name in done.applied)
    yield from (f"back-filled {name}" for name in done.backfilled)
    yield f"{f'{done.database} is now at schema' if done.applied else 'already at schema'} {done.version}"


async def _migrate(url: str, watched: "_Watched") -> tuple[list[str], int]:
    return await amigrate(url, watched), await schema_version(url)


class _Watched:
    """Show what is waited for and how far the back-fills have come, and know what is changed until now."""

    def __init__(self) -> None:
        self.finished: list[str] = []
        self._bar: Bar | None = None
        self._last: Applying | Backfill | None = None

    def __call__(self, news: News) -> None:
        if isinstance(news, Waiting):
            _note(_waiting(news, is_changed=self._last is not None))
            return
        self._last = news
        if isinstance(news, Backfill):
            self._show(news)

    def so_far(self) -> str:
        """Say what is changed now, and what to do about the rest."""
        if self._last is None:
            return "nothing was changed"
        if isinstance(self._last, Applying):
            return "the tables are changed, or were just about to be; take up what is left with: sendonce migrate"
        done = f"{self._last.migration} is back-filled up to {self._last.done:,} of {self._last.bound:,}"
        return f"{done}; go on with: sendonce migrate"

    def _show(self, state: Backfill) -> None:
        part = state.done / state.bound
        self._bar = self._bar or Bar(part, state.done)
        self._bar.show(part, state.done, f"{state.migration}, {state.done:,} of {state.bound:,}")
        if state.is_finished:
            self.finished.append(state.migration)
            self._bar = None


def _waiting(waiting: Waiting, *, is_changed: bool) -> str:
    who = "another transaction" if waiting.pid is None else f"transaction {waiting.pid}"
    what = f"holds {waiting.table}" if waiting.table else "is at work on sendonce's tables"
    return (
        f"waiting for {who}, which {what}; {'only the back-fill is left' if is_changed else 'nothing is changed yet'}"
    )


def _note(sentence: str) -> None:
    progress("")
    print(harmless(sentence), file=sys.stderr, flush=True)


@verb(
    "grants",
    "print the database roles with the least rights (PostgreSQL)",
    argument("--sql", action="store_true", help="print the script (required)"),
    about="Print a script of PostgreSQL roles with the least rights: optional, and never applied by us.",
)
def grants(sql: bool) -> str:
    if not sql:
        raise WrongUse("grants are printed and never applied; say: sendonce grants --sql")
    return grants_sql().rstrip("\n")


grants.text(lambda script: (Verbatim(script),))
grants.json(lambda script: {"sql": script})


def _instance_of(args: argparse.Namespace) -> str | None:
    if args.name is not None and args.none:
        raise WrongUse("give a name, or take it away with --none; not both")
    if args.name is not None and not _NAME.fullmatch(args.name):
        raise WrongUse("a name has up to 63 small letters, digits, dots, dashes and underscores, like production")
    name: str | None = args.name
    return name


@verb(
    "instance",
    "show or give the name of a database, so that a copy of it sends nothing",
    argument("name", nargs="?", help="the name to give it: small letters, digits, dots, dashes, underscores"),
    argument("--none", action="store_true", help="take its name away"),
    WHY,
    OPERATOR,
    about="A database that has a name is worked on only by workers whose settings say the same: [database] instance, or"
    " SENDONCE_INSTANCE. A copy of it elsewhere keeps the name and sends nothing. Set it in the workers' settings"
    " first, then here. Needs the rights of the tables' owner.",
)
async def instance(admin: "Admin", args: argparse.Namespace, none: bool) -> str | None:
    name = _instance_of(args)
    if name is not None or none:
        await admin.aname_instance(name, reason=args.reason)
    return await admin.ainstance()


@instance.text
def _(name: str | None) -> Iterator[str]:
    if name is None:
        yield "this database has no name: workers work on it whatever their settings say"
    else:
        yield f"this database is {name!r}: only workers whose settings say so send from it"


instance.json(lambda name: {"instance": name})
