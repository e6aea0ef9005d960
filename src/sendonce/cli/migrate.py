"""sendonce migrate: make or update the tables, and fill in what that needs."""

import argparse
import sys

from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.output import say
from sendonce.cli.progress import Bar, progress
from sendonce.cli.settings import database_of
from sendonce.compose import display_url, migrate, migration_sql, schema_version
from sendonce.store.migrations import Applying, Backfill, News, Waiting


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "migrate",
        help=COMMANDS["migrate"][1],
        description="Bring the database to the newest schema while programs of the version before go on, and fill in"
        " what that needs. Safe to run twice, and from several hosts at once; what was broken off is taken up again.",
    )
    parser.add_argument("--sql", action="store_true", help="print the script for other tools and touch nothing")


def run(args: argparse.Namespace) -> int:
    url = database_of(args)
    if args.sql:
        say(migration_sql(url).rstrip("\n"))
        return 0
    import asyncio

    watched = _Watched()
    try:
        applied, version = asyncio.run(_migrate(url, watched))
    except KeyboardInterrupt:
        _note(f"sendonce: interrupted; {watched.so_far()}")
        raise
    progress("")
    for name in applied:
        say(f"applied {name}")
    for name in watched.finished:
        say(f"back-filled {name}")
    said = f"{display_url(url)} is now at schema" if applied else "already at schema"
    say(f"{said} {version}")
    return 0


class _Watched:
    """Shows what is waited for and how far the back-fills have come, and knows what is changed until now."""

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
        """What is changed now, and what to do about the rest."""
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
    print(sentence, file=sys.stderr, flush=True)


async def _migrate(url: str, watched: _Watched) -> tuple[list[str], int]:
    return await migrate(url, watched), await schema_version(url)
