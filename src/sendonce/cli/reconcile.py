"""sendonce reconcile: ask now about everything in doubt, or check what is marked sent."""

import argparse
from typing import TYPE_CHECKING

from sendonce.admin.text import counted, one_line, plain, stamp
from sendonce.cli import values
from sendonce.cli.asking import Means, with_means
from sendonce.cli.auditing import DEFAULT_CAP, run_audit
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.failures import WrongUse
from sendonce.cli.options import add_json, add_operator
from sendonce.cli.output import say, say_json
from sendonce.cli.sending import add_sending

if TYPE_CHECKING:
    from collections.abc import Callable

    from sendonce.engine.reconciler import Asked, Reconciled

_AUDIT_ONLY = ("since", "destination", "repair", "reason", "cap")
_SAID = {
    "found": ("had arrived and is completed", "had arrived and are completed"),
    "not_found": ("had not arrived: a worker sends it", "had not arrived: a worker sends them"),
    "held": ("cannot be asked about and is held for a person", "cannot be asked about and are held for a person"),
    "left": ("cannot be asked about: a worker sends it again", "cannot be asked about: a worker sends them again"),
    "given_up": ("had not arrived and is given up", "had not arrived and are given up"),
    "no_answer": ("got no answer", "got no answer"),
    "late": ("was taken over by a worker meanwhile", "were taken over by a worker meanwhile"),
}


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "reconcile",
        help=COMMANDS["reconcile"][1],
        description="Ask now about everything that may have been sent; nothing is sent here. With --audit, check what"
        " is marked sent against what the other side has.",
    )
    add_sending(parser)
    parser.add_argument("--audit", action="store_true", help="check what is marked sent")
    parser.add_argument(
        "--since", type=values.past, metavar="WHEN", help="what was sent since 30m, 2h, 3d ago, or an ISO time"
    )
    parser.add_argument("--destination", type=values.destination, metavar="URI", help="only to this destination")
    parser.add_argument("--repair", action="store_true", help="have what is missing sent again; needs --reason")
    parser.add_argument(
        "--cap", type=values.limit, metavar="N", help=f"send at most so many again (default {DEFAULT_CAP})"
    )
    add_operator(parser)
    parser.add_argument("--verbose", action="store_true", help="also say what became of each delivery")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.audit:
        return run_audit(args)
    for name in _AUDIT_ONLY:
        if getattr(args, name):
            raise WrongUse(f"--{name} belongs to an audit; add --audit")
    return _reconcile(args)


def _reconcile(args: argparse.Namespace) -> int:
    asked: list[Asked] = []

    def on_asked(each: "Asked") -> None:
        if args.json:
            asked.append(each)
        elif args.verbose:
            detail = f" ({one_line(each.detail)})" if each.detail else ""
            say(f"delivery {each.delivery_id} to {one_line(each.destination)} {_SAID[each.answer][0]}{detail}")

    done, in_doubt = with_means(args, lambda means: _ask(means, on_asked))
    if args.json:
        shown = [each._asdict() for each in asked] if args.verbose else []
        found = {"asked": done.asked, "answers": done.answers, "still_in_doubt": in_doubt, "deliveries": shown}
        say_json({**found, "left_alone": done.left_alone, "left_alone_until": plain(done.left_alone_until)})
    else:
        _say_reconciled(done, in_doubt)
    return 1 if done.unanswered or done.left_alone else 0


async def _ask(means: Means, on_asked: "Callable[[Asked], None]") -> "tuple[Reconciled, int]":
    """Ask about everything in doubt; what came of it, and how many are in doubt after it."""
    import os
    import socket

    from sendonce import __version__
    from sendonce.engine.instance import check_instance
    from sendonce.engine.orchestrator import Orchestrator
    from sendonce.engine.reconciler import CONCURRENCY, Reconciler

    store = means.store
    await check_instance(store, means.instance)
    name = f"reconcile {socket.gethostname()}:{os.getpid()}"
    worker_id = await store.register(name, __version__, CONCURRENCY, serves=())
    reconciler = Reconciler(
        Orchestrator(store, means.policies, means.channels), store, means.channels, means.policies,
        namespace=await store.namespace(), worker_id=worker_id, credentials=means.keyring,
        instance=means.instance,
    )  # fmt: skip
    try:
        done = await reconciler.run(on_asked)
    finally:
        await store.leave(worker_id)
    return done, (await store.status()).in_doubt


def _say_reconciled(done: "Reconciled", in_doubt: int) -> None:
    say(f"asked about {counted(done.asked, 'delivery', 'deliveries')} in doubt" + (":" if done.asked else ""))
    for answer, (one, many) in _SAID.items():
        if amount := next((count for each, count in done.answers.items() if each == answer), 0):
            say(f"  {amount:,} {one if amount == 1 else many}")
    if done.left_alone_until is not None:
        verb = "is" if done.left_alone == 1 else "are"
        until = stamp(done.left_alone_until)
        say(f"  {done.left_alone:,} {verb} not asked about before {until}: a receiver may not find yet what it has")
    if in_doubt:
        say(f"still in doubt: {in_doubt:,}; what is stopped or paused is not asked about")
