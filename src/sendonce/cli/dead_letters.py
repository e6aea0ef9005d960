"""sendonce dead-letters: what was given up, and what to do about it."""

import argparse
from collections.abc import Sequence
from dataclasses import fields

from sendonce.admin.dead_letters import attest, discard, requeue
from sendonce.cli import values
from sendonce.cli.bulk import run_bulk
from sendonce.cli.cells import now, show_fields
from sendonce.cli.commands import Subparsers
from sendonce.cli.correcting import add_correct, run_correct
from sendonce.cli.failures import WrongUse
from sendonce.cli.nouns import add_noun, run_verb
from sendonce.cli.options import add_even_if_sent, add_filter, add_ids, add_json, add_operator, filter_of
from sendonce.cli.output import say, say_json
from sendonce.cli.parser import Parser
from sendonce.cli.reopening import say_reopened
from sendonce.cli.running import with_store
from sendonce.cli.selecting import add_selection, selection_of
from sendonce.cli.settings import operator_of
from sendonce.cli.tables import Cell, show_table, when
from sendonce.errors import NotFound
from sendonce.store.bulk import REQUEUE
from sendonce.store.readers import ReadStore
from sendonce.store.records import DeadLetterRow


def add(subparsers: Subparsers) -> None:
    add_noun(
        subparsers,
        "dead-letters",
        "Look at what was given up, and decide about it.",
        {
            "list": ("list the open dead letters, the newest first", _add_list),
            "show": ("show one dead letter", _add_show),
            "requeue": ("send dead letters again, as the next generation", _add_requeue),
            "correct": ("send a dead letter to another address, or with other content", add_correct),
            "attest": ("close dead letters that were delivered, as a person knows", _add_attest),
            "discard": ("close dead letters without sending them", _add_discard),
        },
    )


def run(args: argparse.Namespace) -> int:
    verbs = {"list": _list, "show": _show, "requeue": _requeue, "attest": _attest, "discard": _discard}
    return run_verb(args, {**verbs, "correct": run_correct})


def _add_list(parser: Parser) -> None:
    add_filter(parser, destination=True, reason=True)


def _add_show(parser: Parser) -> None:
    parser.add_argument("id", type=values.row_id, metavar="ID", help="the dead letter's id")
    add_json(parser)


def _add_requeue(parser: Parser) -> None:
    add_selection(parser, "dead letter", given_up_as=True)
    add_operator(parser, reason_required=True)
    add_even_if_sent(parser)
    add_json(parser)


def _add_attest(parser: Parser) -> None:
    add_ids(parser, "dead letter")
    parser.add_argument("--notification-id", metavar="ID", help="the other side's id for it, where it is known")
    add_operator(parser, reason_required=True)
    add_json(parser)


def _add_discard(parser: Parser) -> None:
    add_ids(parser, "dead letter")
    add_operator(parser, reason_required=True)
    add_json(parser)


def _list(args: argparse.Namespace) -> int:
    wanted = filter_of(args)
    letters = with_store(args, lambda store: store.dead_letters(wanted))
    if args.json:
        say_json(letters)
    elif not letters:
        say("no dead letters match")
    else:
        _table(letters)
    return 0


def _table(letters: Sequence[DeadLetterRow]) -> None:
    moment = now()
    rows = [
        [
            Cell(str(each.id)),
            Cell(str(each.delivery_id)),
            Cell(f"{each.reason}, may have been sent" if each.in_doubt else each.reason, "red"),
            Cell(each.type),
            Cell(each.key),
            Cell(each.destination),
            Cell(each.error_code or ""),
            when(each.created_at, moment),
        ]
        for each in letters
    ]
    show_table(["ID", "DELIVERY", "REASON", "TYPE", "KEY", "DESTINATION", "ERROR", "GIVEN UP"], rows)


def _show(args: argparse.Namespace) -> int:
    letter = with_store(args, lambda store: _read(store, args.id))
    if args.json:
        say_json(letter)
        return 0
    show_fields([(field.name, getattr(letter, field.name)) for field in fields(letter)], now())
    say(f"in plain words: sendonce explain delivery:{letter.delivery_id}")
    return 0


async def _read(store: ReadStore, dead_letter_id: int) -> DeadLetterRow:
    letter = await store.dead_letter(dead_letter_id)
    if letter is None:
        raise NotFound(f"there is no dead letter {dead_letter_id}")
    return letter


def _requeue(args: argparse.Namespace) -> int:
    wanted = selection_of(args)
    if wanted is not None:
        return run_bulk(args, REQUEUE, wanted)
    operator = operator_of(args)
    reopened = with_store(
        args,
        lambda store: requeue(store, args.ids, operator=operator, reason=args.reason, even_if_sent=args.even_if_sent),
    )
    return say_reopened(reopened, as_json=args.json)


def _attest(args: argparse.Namespace) -> int:
    if args.notification_id and len(set(args.ids)) > 1:
        raise WrongUse("--notification-id is the id of one message; attest the others without it, or one by one")
    operator, named = operator_of(args), args.notification_id
    attested = with_store(
        args,
        lambda store: attest(store, args.ids, operator=operator, reason=args.reason, notification_id=named),
    )
    if args.json:
        say_json(attested)
        return 0
    for each in attested:
        say(
            f"dead letter {each.dead_letter_id} is attested as sent: delivery {each.delivery_id}"
            f" to {each.destination} is completed"
        )
    return 0


def _discard(args: argparse.Namespace) -> int:
    operator = operator_of(args)
    acted = with_store(args, lambda store: discard(store, args.ids, operator=operator, reason=args.reason))
    if args.json:
        say_json(acted)
    else:
        for each in acted.ids:
            say(f"dead letter {each} is discarded")
    return 0
