"""sendonce deliveries: what is on its way, and what became of it."""

import argparse
from dataclasses import fields
from datetime import datetime

from sendonce.admin.text import plain
from sendonce.cli import values
from sendonce.cli.cells import now, show_fields, state_cell
from sendonce.cli.commands import Subparsers
from sendonce.cli.nouns import add_noun, run_verb
from sendonce.cli.options import add_filter, add_json, filter_of
from sendonce.cli.output import say, say_json
from sendonce.cli.parser import Parser
from sendonce.cli.running import with_store
from sendonce.cli.tables import Cell, show_table, when
from sendonce.errors import NotFound
from sendonce.store.readers import ReadStore
from sendonce.store.records import AttemptRow, DeliveryRow


def add(subparsers: Subparsers) -> None:
    add_noun(
        subparsers,
        "deliveries",
        "Look at what is on its way, and what became of it.",
        {
            "list": ("list deliveries, the newest first", _add_list),
            "show": ("show one delivery and its attempts", _add_show),
        },
    )


def run(args: argparse.Namespace) -> int:
    return run_verb(args, {"list": _list, "show": _show})


def _add_list(parser: Parser) -> None:
    add_filter(parser, status=True, destination=True)


def _add_show(parser: Parser) -> None:
    parser.add_argument("id", type=values.row_id, metavar="ID", help="the delivery's id")
    add_json(parser)


def _list(args: argparse.Namespace) -> int:
    wanted = filter_of(args)
    deliveries = with_store(args, lambda store: store.deliveries(wanted))
    if args.json:
        say_json(deliveries)
    elif not deliveries:
        say("no deliveries match")
    else:
        moment = now()
        show_table(
            ["ID", "STATUS", "TYPE", "KEY", "DESTINATION", "TRIES", "NEXT", "RECORDED"],
            [
                [
                    Cell(str(each.id)),
                    state_cell(each),
                    Cell(each.type),
                    Cell(each.key),
                    Cell(each.destination),
                    Cell(str(each.attempt_count)),
                    _next(each, moment),
                    when(each.created_at, moment),
                ]
                for each in deliveries
            ],
        )
    return 0


def _next(delivery: DeliveryRow, moment: datetime) -> Cell:
    due = delivery.next_attempt_at
    return Cell("due") if due is not None and due <= moment else when(due, moment)


def _show(args: argparse.Namespace) -> int:
    delivery, attempts = with_store(args, lambda store: _read(store, args.id))
    if args.json:
        shown = plain(delivery)
        say_json({**(shown if isinstance(shown, dict) else {}), "attempts": attempts})
        return 0
    moment = now()
    show_fields([(field.name, getattr(delivery, field.name)) for field in fields(delivery)], moment)
    names = ["status", "outcome", "created_at", "finished_at", "lease_id"]
    names += ["error_code", "error_message", "notification_id", "response"]
    for each in attempts:
        say(f"attempt {each.attempt}")
        show_fields([(name, getattr(each, name)) for name in names], moment, indent="  ")
    say(f"in plain words: sendonce explain delivery:{delivery.id}")
    return 0


async def _read(store: ReadStore, delivery_id: int) -> tuple[DeliveryRow, list[AttemptRow]]:
    delivery = await store.delivery(delivery_id)
    if delivery is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    return delivery, await store.attempts_of(delivery_id)
