"""sendonce events: what was recorded."""

import argparse
from collections.abc import Sequence

from sendonce.admin.text import one_line, plain
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
from sendonce.store.records import DeliveryRow, EventRow

# Content is printed on request only.
CONTENT = frozenset({"headers"})


def add(subparsers: Subparsers) -> None:
    add_noun(
        subparsers,
        "events",
        "Look at what was recorded.",
        {
            "list": ("list events, the newest first", _add_list),
            "show": ("show one event and its deliveries", _add_show),
        },
    )


def run(args: argparse.Namespace) -> int:
    return run_verb(args, {"list": _list, "show": _show})


def _add_list(parser: Parser) -> None:
    add_filter(parser, status=True, destination=True)


def _add_show(parser: Parser) -> None:
    parser.add_argument("id", type=values.row_id, metavar="ID", help="the event's id")
    parser.add_argument("--payload", action="store_true", help="also print its payload and headers")
    add_json(parser)


def _list(args: argparse.Namespace) -> int:
    wanted = filter_of(args)
    events = with_store(args, lambda store: store.events(wanted))
    if args.json:
        say_json(events, without=CONTENT)
    elif not events:
        say("no events match")
    else:
        _table(events)
    return 0


def _table(events: Sequence[EventRow]) -> None:
    moment = now()
    rows = [
        [Cell(str(each.id)), Cell(each.type), Cell(each.key), Cell(each.tenant), when(each.created_at, moment)]
        for each in events
    ]
    show_table(["ID", "TYPE", "KEY", "TENANT", "RECORDED"], rows)


def _show(args: argparse.Namespace) -> int:
    event, deliveries, content = with_store(args, lambda store: _read(store, args.id, with_content=args.payload))
    if args.json:
        say_json({**_as_dict(event), **content, "deliveries": deliveries})
        return 0
    moment = now()
    names = ["id", "tenant", "type", "key", "subject", "version", "created_at"]
    show_fields([(name, getattr(event, name)) for name in names], moment)
    for each in deliveries:
        goes = one_line(each.destination, 2000)
        say(f"delivery {each.id}  {state_cell(each).text}  {goes}  (generation {each.generation})")
    if args.payload:
        show_fields([("headers", content["headers"]), ("payload", content["payload"] or "(no longer kept)")], moment)
    return 0


async def _read(
    store: ReadStore, event_id: int, *, with_content: bool
) -> tuple[EventRow, list[DeliveryRow], dict[str, str | None]]:
    event = await store.event(event_id)
    if event is None:
        raise NotFound(f"there is no event {event_id}")
    content = {"headers": event.headers, "payload": await store.payload(event_id)} if with_content else {}
    return event, await store.deliveries_of(event_id), content


def _as_dict(event: EventRow) -> dict[str, object]:
    shown = plain(event, without=CONTENT)
    return dict(shown) if isinstance(shown, dict) else {}
