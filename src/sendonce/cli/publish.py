"""sendonce publish: record an event and its deliveries, in a transaction of its own."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from sendonce.cli import values
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.failures import WrongUse
from sendonce.cli.options import add_json
from sendonce.cli.output import say, say_json
from sendonce.cli.parser import Parser
from sendonce.cli.running import with_store
from sendonce.cli.settings import database_of
from sendonce.compose import open_connection
from sendonce.errors import KeyReused
from sendonce.operations.wording import counted
from sendonce.outbox.outbox import Outbox, Published
from sendonce.stores.ports import ReadStore
from sendonce.stores.records import DeliveryRow


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
    _add_payload(parser)
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


def _add_payload(parser: Parser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--payload", metavar="JSON", help="the content; - reads standard input (default: {})")
    source.add_argument("--payload-file", metavar="FILE", help="the content, from a file; - reads standard input")


def run(args: argparse.Namespace) -> int:
    payload = _payload(args)
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


def _payload(args: argparse.Namespace) -> object:
    text, source = "{}", "the payload"
    if args.payload == "-" or args.payload_file == "-":
        text, source = _decoded(sys.stdin.buffer.read(), "standard input"), "standard input"
    elif args.payload is not None:
        text = args.payload
    elif args.payload_file is not None:
        source = args.payload_file
        try:
            text = _decoded(Path(source).read_bytes(), source)
        except (OSError, ValueError) as error:
            raise WrongUse(f"{source} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        return json.loads(text)
    except RecursionError:
        raise WrongUse(f"{source} is nested too deeply to be JSON") from None
    except ValueError as error:
        # Only where it goes wrong: the text itself may be secret.
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise WrongUse(f"{source} is not JSON{place}") from None


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUse(f"{source} is not UTF-8 text") from None
