"""sendonce erase: remove what one person was sent, and keep that it was."""

import argparse
from typing import TYPE_CHECKING

from sendonce.admin.text import counted
from sendonce.cli import values
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.options import add_json, add_operator
from sendonce.cli.output import say, say_json, warn
from sendonce.cli.progress import progress
from sendonce.cli.running import with_store
from sendonce.cli.settings import operator_of

if TYPE_CHECKING:
    from sendonce.admin.erase import Erasing
    from sendonce.store.ports import Store
    from sendonce.store.upkeep import Person


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "erase",
        help=COMMANDS["erase"][1],
        description="Blank what one person was sent, and what was answered. That it was sent stays, with its digest and"
        " its token; the address itself stays in the delivery's row until retention deletes that.",
    )
    person = parser.add_mutually_exclusive_group(required=True)
    person.add_argument("--destination", type=values.destination, metavar="URI", help="everything to this destination")
    person.add_argument("--subject", metavar="TEXT", help="everything about this subject, wherever it went")
    parser.add_argument("--tenant", type=values.tenant, metavar="NAME", help="only of this tenant")
    parser.add_argument("--shared", action="store_true", help="also payloads that others were sent too")
    parser.add_argument("--dry-run", action="store_true", help="count it, and change nothing")
    parser.add_argument("--yes", action="store_true", help="do it: it cannot be undone")
    add_operator(parser, reason_required=True)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from sendonce.store.upkeep import Person

    person = Person(destination=args.destination, subject=args.subject, tenant=args.tenant)
    acts = args.yes and not args.dry_run
    operator = operator_of(args)
    done = with_store(args, lambda store: _run(store, person, args, operator, acts=acts))
    if args.json:
        say_json({"erased": done.erased, "cancelled": done.cancelled, "dry_run": not acts})
    elif done.has_found:
        _say(done, with_shared=args.shared, would=not acts)
    if not done.has_found:
        warn(f"nothing was found{_hint(args.destination)}")
        return 0 if args.dry_run else 1
    if not acts and not args.dry_run:
        warn("nothing was erased: it cannot be undone, so add --yes to do it")
        return 1
    return 1 if acts and done.erased.busy else 0


async def _run(store: "Store", person: "Person", args: argparse.Namespace, operator: str, *, acts: bool) -> "Erasing":
    from contextlib import aclosing

    from sendonce.admin.erase import Erasing, count, erase
    from sendonce.store.upkeep import Erased

    steps = count(store, person, shared=args.shared)
    if acts:
        steps = erase(store, person, shared=args.shared, operator=operator, reason=args.reason)
    done = Erasing(Erased(), 0, 0)
    try:
        async with aclosing(steps):
            async for done in steps:
                progress(f"{done.erased.events:,} events found, looked up to {done.last_id:,}")
    finally:
        progress("")
    return done


def _say(done: "Erasing", *, with_shared: bool, would: bool) -> None:
    erased, be = done.erased, "would be " if would else ""
    if done.cancelled:
        say(f"{counted(done.cancelled, 'open delivery', 'open deliveries')} {be}cancelled")
    blanked = f"{counted(erased.payloads, 'payload')} and {counted(erased.contents, 'content')} of their own"
    answered = counted(erased.deliveries, "delivery", "deliveries")
    say(f"{counted(erased.events, 'event')}: {blanked} {be}blanked, and what was answered to {answered}")
    if not would:
        say("that they were sent is kept, address and all, until retention deletes it")
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
