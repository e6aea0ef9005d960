"""sendonce prune and erase: remove what has ended long ago, or what one person was sent."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from sendonce.admin.text import counted
from sendonce.cli import options
from sendonce.cli.context import CONFIG, configured
from sendonce.cli.options import OPERATOR, WHY_REQUIRED
from sendonce.cli.output import say, warn
from sendonce.cli.parser import Parser, WrongUse
from sendonce.cli.prompt import agrees, check_terminal, progress
from sendonce.cli.verbs import Arguments, argument, verb

if TYPE_CHECKING:
    from sendonce.admin.api import Admin
    from sendonce.admin.erase import Erasing
    from sendonce.admin.prune import PruneProgress
    from sendonce.engine.retention import RetentionSettings

_WINDOWS = {
    "payloads": "the content of what ended longer ago than this",
    "history": "deliveries that ended longer ago, with their attempts",
    "keys": "events that ended longer ago, with their keys; at least --history",
}


@dataclass(frozen=True, slots=True)
class _Pruned:
    """What was removed; nothing when a person has not agreed."""

    done: "PruneProgress | None"


def _add_windows(parser: Parser) -> None:
    for name, about in _WINDOWS.items():
        parser.add_argument(
            f"--{name}",
            type=_window,
            default=argparse.SUPPRESS,
            metavar="TIME",
            help=f"{about} (30d, or never); else as the workers do",
        )


def _agreed(args: argparse.Namespace) -> bool:
    """Return whether it is to be done; a person at a terminal is asked."""
    if args.dry_run and args.archive:
        raise WrongUse("a dry run archives nothing; leave out --archive or --dry-run")
    settings = _settings(args)
    if args.dry_run or args.yes:
        return True
    check_terminal()
    from sendonce.admin.prune import about

    say(f"what has ended is removed for good: {about(settings)}")
    return agrees()


@verb(
    "prune",
    "remove now what has ended long ago, and archive it first if asked",
    CONFIG,
    Arguments(_add_windows, {"is_agreed": _agreed, "settings": lambda args: _settings(args)}),
    argument("--archive", metavar="FILE", help="first write it there, as JSON lines; compressed for .gz"),
    argument("--dry-run", action="store_true", help="count it, and remove nothing"),
    argument("--yes", action="store_true", help="do not ask before: it cannot be undone"),
    WHY_REQUIRED,
    OPERATOR,
    about="Remove now what the workers would remove in their own time: content, then history, then keys of what has"
    " ended. What is open, or a dead letter that nobody has decided about, stays.",
)
async def prune(admin: "Admin", args: argparse.Namespace, is_agreed: bool, settings: "RetentionSettings") -> _Pruned:
    return _Pruned(await _prune(admin, settings, args) if is_agreed else None)


@prune.json
def _(pruned: _Pruned, dry_run: bool) -> object:
    done = pruned.done
    if done is None:
        return {"dry_run": dry_run}
    counts = {"contents": done.contents, "deliveries": done.deliveries, "events": done.events, "rest": done.rest}
    return {**counts, "archived": done.archived, "dry_run": dry_run}


@prune.code
def _(pruned: _Pruned) -> int:
    return 0 if pruned.done is not None else 1


@prune.text
def _(pruned: _Pruned, args: argparse.Namespace) -> Iterator[str]:
    if pruned.done is None:
        yield "nothing was done"
        return
    done = pruned.done
    would = "would be " if args.dry_run else ""
    yield f"{counted(done.contents, 'event')} {would}blanked"
    yield f"{counted(done.deliveries, 'delivery', 'deliveries')} {would}deleted, with their attempts"
    yield f"{counted(done.events, 'event')} {would}deleted, with their keys"
    if done.rest:
        yield f"{counted(done.rest, 'other old row')} deleted"
    if done.archived:
        yield f"{counted(done.archived, 'document')} written to {args.archive}"


def _window(text: str) -> timedelta | None:
    return None if text.strip().lower() == "never" else options.duration(text)


def _settings(args: argparse.Namespace) -> "RetentionSettings":
    """The settings of the workers, and over them what was given."""
    import os
    from dataclasses import replace

    from sendonce.config.load import find, load_retention

    given = {name: getattr(args, name) for name in _WINDOWS if hasattr(args, name)}
    return configured(lambda: replace(load_retention(find(args.config, os.environ), os.environ), **given))


async def _prune(admin: "Admin", settings: "RetentionSettings", args: argparse.Namespace) -> "PruneProgress":
    from pathlib import Path

    def show(done: "PruneProgress") -> None:
        where = f"{done.stage}, up to event {done.last_id}" if done.stage else "the rest"
        progress(f"{done.contents:,} contents, {done.deliveries:,} deliveries, {done.events:,} events ({where})")

    try:
        if args.dry_run:
            return await admin.apreview_prune(retention=settings, on_progress=show)
        archive = Path(args.archive) if args.archive else None
        return await admin.aprune(reason=args.reason, retention=settings, archive=archive, on_progress=show)
    finally:
        progress("")


def _add_person(parser: Parser) -> None:
    person = parser.add_mutually_exclusive_group(required=True)
    person.add_argument("--destination", type=options.destination, metavar="URI", help="everything to this destination")
    person.add_argument("--subject", metavar="TEXT", help="everything about this subject, wherever it went")
    parser.add_argument("--tenant", type=options.tenant, metavar="NAME", help="only of this tenant")


@verb(
    "erase",
    "remove what one person was sent, and keep that it was",
    Arguments(_add_person, {"acts": lambda args: args.yes and not args.dry_run}),
    argument("--shared", action="store_true", help="also payloads that others were sent too"),
    argument("--dry-run", action="store_true", help="count it, and change nothing"),
    argument("--yes", action="store_true", help="do it: it cannot be undone"),
    WHY_REQUIRED,
    OPERATOR,
    about="Blank what one person was sent, and what was answered. That it was sent stays, with its digest and its"
    " token; the address itself stays in the delivery's row until retention deletes that.",
)
async def erase(admin: "Admin", args: argparse.Namespace, acts: bool) -> "Erasing":
    done = await _erase(admin, args, acts=acts)
    if not done.has_found:
        warn(f"nothing was found{_hint(args.destination)}")
    elif not acts and not args.dry_run:
        warn("nothing was erased: it cannot be undone, so add --yes to do it")
    return done


@erase.json
def _(done: "Erasing", acts: bool) -> object:
    return {"erased": done.erased, "cancelled": done.cancelled, "dry_run": not acts}


@erase.text
def _(done: "Erasing", shared: bool, acts: bool) -> Iterator[str]:
    if done.has_found:
        yield from _erased(done, with_shared=shared, would=not acts)


@erase.code
def _(done: "Erasing", acts: bool, dry_run: bool) -> int:
    if not acts:
        return 0 if dry_run else 1
    return 1 if done.erased.busy or not done.has_found else 0


async def _erase(admin: "Admin", args: argparse.Namespace, *, acts: bool) -> "Erasing":
    def show(done: "Erasing") -> None:
        progress(f"{done.erased.events:,} events found, looked up to {done.last_id:,}")

    whose = {"destination": args.destination, "subject": args.subject, "tenant": args.tenant, "shared": args.shared}
    try:
        if acts:
            return await admin.aerase(**whose, reason=args.reason, on_progress=show)
        return await admin.apreview_erase(**whose, on_progress=show)
    finally:
        progress("")


def _erased(done: "Erasing", *, with_shared: bool, would: bool) -> Iterator[str]:
    erased, be = done.erased, "would be " if would else ""
    if done.cancelled:
        yield f"{counted(done.cancelled, 'open delivery', 'open deliveries')} {be}cancelled"
    blanked = f"{counted(erased.payloads, 'payload')} and {counted(erased.contents, 'content')} of their own"
    answered = counted(erased.deliveries, "delivery", "deliveries")
    yield f"{counted(erased.events, 'event')}: {blanked} {be}blanked, and what was answered to {answered}"
    if not would:
        yield "that they were sent is kept, address and all, until retention deletes it"
    if erased.kept:
        again = (
            "others still need it: run it again later"
            if with_shared
            else "others share it: to blank it too, add --shared"
        )
        warn(f"{counted(erased.kept, 'payload')} {be}kept, because {again}")
    if erased.busy:
        warn(f"{counted(erased.busy, 'event')} {be}left for now, because something of it is being sent: run it again")


def _hint(destination: str | None) -> str:
    """The part of an address before the @ may mean somebody else in another spelling, so it is kept as it is."""
    return "; the part before @ must be written as it was recorded" if "@" in (destination or "") else ""
