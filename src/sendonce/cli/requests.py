"""sendonce requests: one version of a subject to its recipients, and whether all that must be are notified."""

import argparse
from datetime import timedelta

from sendonce.admin.text import one_line
from sendonce.cli import values
from sendonce.cli.cells import now, show_fields
from sendonce.cli.commands import Subparsers
from sendonce.cli.nouns import add_noun, run_verb
from sendonce.cli.options import DEFAULT_LIMIT, add_json
from sendonce.cli.output import say, say_json, warn
from sendonce.cli.parser import Parser
from sendonce.cli.running import with_store
from sendonce.cli.tables import Cell, show_table, when
from sendonce.domain.durations import format_duration
from sendonce.domain.requests import RecipientState, RequestState, RequestStatus
from sendonce.store.filters import Filter
from sendonce.store.records import RequestRow

DEFAULT_TIMEOUT = timedelta(minutes=1)
_COLOURS = {
    RequestStatus.IN_PROGRESS: None,
    RequestStatus.RETRYABLE_FAILED: "red",
    RequestStatus.SUCCEEDED: "green",
}


def add(subparsers: Subparsers) -> None:
    add_noun(
        subparsers,
        "requests",
        "Look at requests: one version of a subject to its recipients.",
        {
            "list": ("list requests, the newest first", _add_list),
            "show": ("show one request and its recipients", _add_show),
            "wait": ("wait until a request has succeeded or failed", _add_wait),
        },
    )


def run(args: argparse.Namespace) -> int:
    return run_verb(args, {"list": _list, "show": _show, "wait": _wait})


def _add_list(parser: Parser) -> None:
    parser.add_argument("--subject", metavar="TEXT", help="only of this subject")
    statuses = ", ".join(RequestStatus)
    parser.add_argument("--status", type=values.request_status, metavar="STATUS", help=f"only these: {statuses}")
    parser.add_argument("--type", type=values.event_type, metavar="TYPE", help="only of this event type")
    parser.add_argument("--tenant", type=values.tenant, metavar="NAME", help="only of this tenant")
    parser.add_argument(
        "--limit",
        type=values.limit,
        default=DEFAULT_LIMIT,
        metavar="N",
        help=f"at most so many, the newest first (default {DEFAULT_LIMIT})",
    )
    add_json(parser)


def _add_show(parser: Parser) -> None:
    parser.add_argument("id", type=values.row_id, metavar="ID", help="the request's id")
    add_json(parser)


def _add_wait(parser: Parser) -> None:
    parser.add_argument("id", type=values.row_id, metavar="ID", help="the request's id")
    parser.add_argument(
        "--timeout",
        type=values.duration,
        default=DEFAULT_TIMEOUT,
        metavar="TIME",
        help=f"how long to wait: 30s, 5m (default {format_duration(DEFAULT_TIMEOUT)})",
    )
    add_json(parser)


def _list(args: argparse.Namespace) -> int:
    wanted = Filter(subject=args.subject, type=args.type, tenant=args.tenant, status=args.status, limit=args.limit)
    requests = with_store(args, lambda store: store.requests(wanted))
    if args.json:
        say_json(requests)
    elif not requests:
        say("no requests match")
    else:
        moment = now()
        show_table(
            ["ID", "STATUS", "TYPE", "SUBJECT", "VERSION", "NOTIFIED", "TENANT", "RECORDED"],
            [
                [
                    Cell(str(each.id)),
                    Cell(each.status, _COLOURS[each.status]),
                    Cell(each.type),
                    Cell(each.subject),
                    Cell(str(each.version)),
                    Cell(_progress(each)),
                    Cell(each.tenant),
                    when(each.created_at, moment),
                ]
                for each in requests
            ],
        )
    return 0


def _progress(request: RequestRow) -> str:
    given_up = f", {request.given_up} given up" if request.given_up else ""
    return f"{request.notified} of {request.required}{given_up}"


def _show(args: argparse.Namespace) -> int:
    # Here and below: it brings an event loop, which --help has no use for.
    from sendonce.admin.deliveries import find_request

    state = with_store(args, lambda store: find_request(store, args.id))
    if args.json:
        say_json(state)
    else:
        _print(state)
    return 0


def _print(state: RequestState) -> None:
    names = ["id", "status", "tenant", "type", "subject", "version", "event_id", "created_at"]
    show_fields([(name, getattr(state, name)) for name in names], now())
    for each in state.recipients:
        say(_recipient(each))


def _recipient(recipient: RecipientState) -> str:
    goes = one_line(recipient.destination, 2000)
    if recipient.sent_to is not None and recipient.sent_to != recipient.destination:
        goes += f", corrected to {one_line(recipient.sent_to, 2000)}"
    error = (
        "" if recipient.notified_at or not recipient.final_error_code else f"  {one_line(recipient.final_error_code)}"
    )
    kind = "required" if recipient.is_required else "optional"
    return f"{kind}  delivery {recipient.delivery_id}  {recipient.status}  {goes}{error}"


def _wait(args: argparse.Namespace) -> int:
    from sendonce.admin.deliveries import request_sentence, wait_for_request

    state = with_store(args, lambda store: wait_for_request(store, args.id, timeout=args.timeout))
    if args.json:
        say_json(state)
    if state.status is RequestStatus.SUCCEEDED:
        if not args.json:
            say(request_sentence(state))
        return 0
    late = f"; {format_duration(args.timeout)} are over" if state.status is RequestStatus.IN_PROGRESS else ""
    warn(f"{request_sentence(state)}{late}; see: sendonce requests show {state.id}")
    return 1
