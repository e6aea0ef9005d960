"""sendonce cancel: give up deliveries that are not sent yet."""

import argparse

from sendonce.admin.deliveries import cancel
from sendonce.cli.bulk import run_bulk
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.options import add_even_if_sent, add_json, add_operator
from sendonce.cli.output import say, say_json, warn
from sendonce.cli.running import with_store
from sendonce.cli.selecting import add_selection, selection_of
from sendonce.cli.settings import operator_of
from sendonce.store.bulk import CANCEL


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "cancel",
        help=COMMANDS["cancel"][1],
        description="Give up deliveries that wait for their first or next attempt. What is being sent stays as it is."
        " By filter, what may have arrived stays too.",
    )
    add_selection(parser, "delivery")
    add_operator(parser, reason_required=True)
    add_even_if_sent(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    wanted = selection_of(args)
    if wanted is not None:
        return run_bulk(args, CANCEL, wanted)
    operator = operator_of(args)
    answers = with_store(args, lambda store: cancel(store, args.ids, operator=operator, reason=args.reason))
    if args.json:
        say_json(answers)
    else:
        for each in answers:
            (say if each.done else warn)(each.message)
    return 0 if all(each.done for each in answers) else 1
