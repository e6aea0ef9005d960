"""sendonce events and publish: look at what was recorded, and record an event in a transaction of its own."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sendonce.admin.text import counted, one_line
from sendonce.cli import options
from sendonce.cli.context import database_of
from sendonce.cli.options import DESTINATION, PAGE, SINCE, STATUS, TENANT, TYPE, wanted_of
from sendonce.cli.output import Line, fields_of
from sendonce.cli.parser import WrongUse
from sendonce.cli.tables import Cell, Table, field_lines, listed, now, older, state_cell, when
from sendonce.cli.verbs import argument, verb
from sendonce.errors import KeyReused
from sendonce.store.filters import LOOK, Page
from sendonce.store.records import DeliveryRow, EventRow

if TYPE_CHECKING:
    from sendonce.admin.api import Admin
    from sendonce.outbox.outbox import Published

# Content is printed on request only.
_CONTENT = frozenset({"headers"})


@dataclass(frozen=True, slots=True)
class _Event:
    event: EventRow
    deliveries: Page[DeliveryRow]
    content: dict[str, str | None]


@verb("events list", "list events, the newest first", STATUS, TYPE, DESTINATION, TENANT, SINCE, *PAGE)
async def list_events(admin: "Admin", args: argparse.Namespace) -> Page[EventRow]:
    return await admin.aevents(**wanted_of(args))


@list_events.json
def _(page: Page[EventRow]) -> object:
    return fields_of(page, without=_CONTENT)


@list_events.text
def _(page: Page[EventRow], limit: int) -> Iterator[Line]:
    return listed(page, _table, "events", limit)


def _table(events: Page[EventRow]) -> Table:
    at = now()
    rows = [
        [Cell(str(each.id)), Cell(each.type), Cell(each.key), Cell(each.tenant), when(each.created_at, at)]
        for each in events
    ]
    return Table(["ID", "TYPE", "KEY", "TENANT", "RECORDED"], rows)


@verb(
    "events show",
    "show one event and its deliveries",
    options.id_of("event"),
    options.older_than("deliveries"),
    argument("--payload", action="store_true", help="also print its payload and headers"),
)
async def show_event(admin: "Admin", id: int, before: int | None, payload: bool) -> _Event:
    event = await admin.aevent(id)
    content = {"headers": event.headers, "payload": await admin.apayload(id)} if payload else {}
    return _Event(event, await admin.adeliveries_of(id, before=before), content)


@show_event.json
def _(shown: _Event) -> object:
    return {
        **fields_of(shown.event, without=_CONTENT),
        **shown.content,
        "deliveries": list(shown.deliveries),
        "next_before": shown.deliveries.next_before,
    }


@show_event.text
def _(shown: _Event, payload: bool) -> Iterator[str]:
    at = now()
    names = ["id", "tenant", "type", "key", "subject", "version", "created_at"]
    yield from field_lines([(name, getattr(shown.event, name)) for name in names], at)
    for each in shown.deliveries:
        goes = one_line(each.destination, 2000)
        yield f"delivery {each.id}  {state_cell(each).text}  {goes}  (generation {each.generation})"
    yield from older(shown.deliveries)
    if payload:
        content = shown.content["payload"] or "(no longer kept)"
        yield from field_lines([("headers", shown.content["headers"]), ("payload", content)], at)


@dataclass(frozen=True, slots=True)
class _Recorded:
    published: "Published"
    deliveries: Sequence[DeliveryRow]


@verb(
    "publish",
    "record an event and its deliveries",
    argument("type", type=options.event_type, metavar="TYPE", help="what happened, like memo.created"),
    argument("--key", required=True, metavar="KEY", help="what makes this event the same event again (required)"),
    argument(
        "--to",
        action="append",
        type=options.named_destination,
        metavar="URI",
        help="where to; may be repeated",
    ),
    argument("--subscriptions-only", action="store_true", help="to the subscriptions that match, and nowhere else"),
    options.payload("default: {}", default={}),
    argument("--tenant", type=options.tenant, default="", metavar="NAME", help="whose event (default: none)"),
    argument("--subject", metavar="TEXT", help="what the event is about"),
    argument("--version", dest="event_version", type=options.version, metavar="N", help="the subject's version"),
    argument("--deliver-at", type=options.future, metavar="WHEN", help="not before: 10m, 2h, or an ISO time"),
    argument("--expires-at", type=options.future, metavar="WHEN", help="give up after: 10m, 2h, or an ISO time"),
    argument(
        "--if-unsure",
        choices=["resend", "hold"],
        help="what to do with a message that may have been sent, where nobody can be asked",
    ),
    argument(
        "--if-different",
        choices=["raise", "keep_first"],
        default="raise",
        help="what to do when the key was used for different content (default: raise, an error)",
    ),
    about="Record an event, with a delivery for each destination named and each subscription that matches.",
)
async def publish(admin: "Admin", args: argparse.Namespace, payload: object) -> _Recorded:
    from sendonce.compose import open_connection
    from sendonce.outbox.outbox import Outbox

    if (args.to is None) is not args.subscriptions_only:
        raise WrongUse("say where to: --to URI (subscriptions that match get it too), or --subscriptions-only")
    try:
        with open_connection(database_of(args)) as connection:
            published = Outbox().publish(
                connection,
                args.type,
                payload,
                key=args.key,
                to=args.to,
                tenant=args.tenant,
                subject=args.subject,
                version=args.event_version,
                deliver_at=args.deliver_at,
                expires_at=args.expires_at,
                if_unsure=args.if_unsure,
                if_different=args.if_different,
            )
    except KeyReused:
        raise KeyReused(
            f"the key {args.key!r} of {args.type} was used before, for different content or destinations; "
            "use a key of its own, or go by the first one with: --if-different keep_first"
        ) from None
    # Who may only record may not read states: they are looked up only for those who ask.
    return _Recorded(published, await admin.adeliveries_of(published.event_id, limit=LOOK) if args.json else ())


@publish.json
def _(recorded: _Recorded) -> object:
    return {
        "event_id": recorded.published.event_id,
        "new": not recorded.published.duplicate,
        "deliveries": [
            {"id": each.id, "destination": each.destination, "generation": each.generation, "status": each.status}
            for each in recorded.deliveries
        ],
    }


@publish.text
def _(recorded: _Recorded) -> Iterator[str]:
    published = recorded.published
    if published.duplicate:
        yield f"event {published.event_id} was recorded with this key before; nothing was added"
    else:
        made = counted(published.deliveries, "delivery", "deliveries")
        yield f"event {published.event_id} is recorded, with {made}"
