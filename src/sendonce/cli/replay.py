"""sendonce replay: send finished deliveries again."""

import argparse

from sendonce.admin.dead_letters import replay
from sendonce.cli.bulk import run_bulk
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.options import add_even_if_sent, add_json, add_operator
from sendonce.cli.reopening import say_reopened
from sendonce.cli.running import with_store
from sendonce.cli.selecting import add_selection, selection_of
from sendonce.cli.settings import operator_of
from sendonce.store.bulk import REPLAY


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "replay",
        help=COMMANDS["replay"][1],
        description="Open the next generation of finished deliveries. Of those named by id all, or none when one"
        " cannot; by filter all that match, in steps.",
    )
    add_selection(parser, "delivery")
    add_operator(parser, reason_required=True)
    add_even_if_sent(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    wanted = selection_of(args)
    if wanted is not None:
        return run_bulk(args, REPLAY, wanted)
    operator = operator_of(args)
    reopened = with_store(
        args,
        lambda store: replay(store, args.ids, operator=operator, reason=args.reason, even_if_sent=args.even_if_sent),
    )
    return say_reopened(reopened, as_json=args.json)
