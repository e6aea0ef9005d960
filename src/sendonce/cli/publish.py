"""sendonce publish: record an event and its deliveries, in a transaction of its own."""

import argparse
from collections.abc import Sequence

from sendonce.admin.text import counted
from sendonce.cli import values
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.options import add_json
from sendonce.cli.output import say, say_json
from sendonce.cli.payloads import add_payload, has_payload, payload_of
from sendonce.cli.running import with_store
from sendonce.cli.settings import database_of
from sendonce.compose import open_connection
from sendonce.errors import KeyReused
from sendonce.outbox.outbox import Outbox, Published
from sendonce.store.readers import ReadStore
from sendonce.store.records import DeliveryRow


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "publish",
        help=COMMANDS["publish"][1],
        description="Record an event, with a delivery for each destination named and each subscription that matches.",
    )
    parser.add_argument("type", type=values.event_type, metavar="TYPE", help="what happened, like memo.created")
    parser.add_argument(
        "--key", required=True, metavar="KEY", help="what makes this event the same event again (required)"
    )
    parser.add_argument(
        "--to",
        action="append",
        default=[],
        type=values.named_destination,
        metavar="URI",
        help="where to; may be repeated",
    )
    add_payload(parser, "default: {}")
    parser.add_argument("--tenant", type=values.tenant, default="", metavar="NAME", help="whose event (default: none)")
    parser.add_argument("--subject", metavar="TEXT", help="what the event is about")
    parser.add_argument(
        "--version", dest="event_version", type=values.version, metavar="N", help="the subject's version"
    )
    parser.add_argument("--deliver-at", type=values.future, metavar="WHEN", help="not before: 10m, 2h, or an ISO time")
    parser.add_argument(
        "--expires-at", type=values.future, metavar="WHEN", help="give up after: 10m, 2h, or an ISO time"
    )
    parser.add_argument(
        "--if-unsure",
        choices=["resend", "hold"],
        help="what to do with a message that may have been sent, where nobody can be asked",
    )
    parser.add_argument(
        "--if-different",
        choices=["raise", "keep_first"],
        default="raise",
        help="what to do when the key was used for different content (default: raise, an error)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    payload = payload_of(args) if has_payload(args) else {}
    url = database_of(args)
    published, deliveries = with_store(args, lambda store: _publish(store, url, payload, args))
    if args.json:
        say_json(_document(published, deliveries))
    elif published.duplicate:
        say(f"event {published.event_id} was recorded with this key before; nothing was added")
    else:
        made = counted(published.deliveries, "delivery", "deliveries")
        say(f"event {published.event_id} is recorded, with {made}")
    return 0


async def _publish(
    store: ReadStore, url: str, payload: object, args: argparse.Namespace
) -> tuple[Published, list[DeliveryRow]]:
    try:
        with open_connection(url) as connection:
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
    return published, await store.deliveries_of(published.event_id) if args.json else []


def _document(published: Published, deliveries: Sequence[DeliveryRow]) -> dict[str, object]:
    return {
        "event_id": published.event_id,
        "new": not published.duplicate,
        "deliveries": [
            {"id": each.id, "destination": each.destination, "generation": each.generation, "status": each.status}
            for each in deliveries
        ],
    }
