"""sendonce prune: remove now what has ended long ago."""

import argparse
from datetime import timedelta
from typing import TYPE_CHECKING

from sendonce.admin.text import counted
from sendonce.cli import values
from sendonce.cli.agreeing import agrees, check_terminal
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.failures import WrongUse
from sendonce.cli.options import add_json, add_operator
from sendonce.cli.output import say, say_json
from sendonce.cli.progress import progress
from sendonce.cli.running import with_store
from sendonce.cli.sending import add_config
from sendonce.cli.settings import operator_of
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from sendonce.admin.prune import Plan, Progress
    from sendonce.engine.retention import RetentionSettings
    from sendonce.store.ports import Store
    from sendonce.store.upkeep import Archive

_WINDOWS = {
    "payloads": "the content of what ended longer ago than this",
    "history": "deliveries that ended longer ago, with their attempts",
    "keys": "events that ended longer ago, with their keys; at least --history",
}


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "prune",
        help=COMMANDS["prune"][1],
        description="Remove now what the workers would remove in their own time: content, then history, then keys of"
        " what has ended. What is open, or a dead letter that nobody has decided about, stays.",
    )
    add_config(parser)
    for name, about in _WINDOWS.items():
        parser.add_argument(
            f"--{name}",
            type=_window,
            default=argparse.SUPPRESS,
            metavar="TIME",
            help=f"{about} (30d, or never); else as the workers do",
        )
    parser.add_argument("--archive", metavar="FILE", help="first write it there, as JSON lines; compressed for .gz")
    parser.add_argument("--dry-run", action="store_true", help="count it, and remove nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask before: it cannot be undone")
    add_operator(parser, reason_required=True)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.dry_run and args.archive:
        raise WrongUse("a dry run archives nothing; leave out --archive or --dry-run")
    settings = _settings(args)
    operator = operator_of(args)
    if not args.dry_run and not args.yes:
        check_terminal()
        say(f"what has ended is removed for good: {_about(settings)}")
        if not agrees():
            say("nothing was done")
            return 1
    done, archived = with_store(args, lambda store: _prune(store, settings, args, operator))
    if args.json:
        counts = {"contents": done.contents, "deliveries": done.deliveries, "events": done.events, "rest": done.rest}
        say_json({**counts, "archived": archived, "dry_run": args.dry_run})
    else:
        _say(done, archived, args)
    return 0


def _window(text: str) -> timedelta | None:
    return None if text.strip().lower() == "never" else values.duration(text)


def _settings(args: argparse.Namespace) -> "RetentionSettings":
    """The settings of the workers, and over them what was given."""
    import os
    from dataclasses import replace

    from sendonce.config.load import find, load_retention

    given = {name: getattr(args, name) for name in _WINDOWS if hasattr(args, name)}
    try:
        return replace(load_retention(find(args.config, os.environ), os.environ), **given)
    except ConfigError as error:
        raise WrongUse(str(error)) from None


def _about(settings: "RetentionSettings") -> str:
    """payloads 30d, history 90d, keys never."""
    from sendonce.domain.durations import format_duration

    ages = {name: getattr(settings, name) for name in _WINDOWS}
    return ", ".join(f"{name} {'never' if age is None else format_duration(age)}" for name, age in ages.items())


async def _prune(
    store: "Store", settings: "RetentionSettings", args: argparse.Namespace, operator: str
) -> "tuple[Progress, int]":
    from pathlib import Path

    from sendonce.admin.prune import ArchiveFile, Plan

    plan = Plan(
        about=_about(settings),
        ages=settings.stages,
        workers=settings.workers,
        operations=settings.operations,
        batch=settings.batch,
    )
    if not args.archive:
        return await _run(store, plan, args, operator, None), 0
    file = ArchiveFile(Path(args.archive))
    try:
        return await _run(store, plan, args, operator, file.write), file.documents
    finally:
        file.close()


async def _run(
    store: "Store", plan: "Plan", args: argparse.Namespace, operator: str, archive: "Archive | None"
) -> "Progress":
    from contextlib import aclosing

    from sendonce.admin.prune import Progress, count, prune

    steps = count(store, plan) if args.dry_run else prune(
        store, plan, operator=operator, reason=args.reason, archive=archive
    )  # fmt: skip
    done = Progress()
    try:
        async with aclosing(steps):
            async for done in steps:
                where = f"{done.stage}, up to event {done.last_id}" if done.stage else "the rest"
                progress(
                    f"{done.contents:,} contents, {done.deliveries:,} deliveries, {done.events:,} events ({where})"
                )
    finally:
        progress("")
    return done


def _say(done: "Progress", archived: int, args: argparse.Namespace) -> None:
    would = "would be " if args.dry_run else ""
    say(f"{counted(done.contents, 'event')} {would}blanked")
    say(f"{counted(done.deliveries, 'delivery', 'deliveries')} {would}deleted, with their attempts")
    say(f"{counted(done.events, 'event')} {would}deleted, with their keys")
    if done.rest:
        say(f"{counted(done.rest, 'other old row')} deleted")
    if archived:
        say(f"{counted(archived, 'document')} written to {args.archive}")
