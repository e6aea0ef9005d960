"""sendonce requests: one version of a subject to its recipients, and whether all that must be are notified."""

import argparse
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from sendonce.admin.text import one_line
from sendonce.cli.options import PAGE, TENANT, TYPE, duration, id_of, request_status, wanted_of
from sendonce.cli.output import Line, warn
from sendonce.cli.tables import Cell, Table, field_lines, listed, now, when
from sendonce.cli.verbs import argument, verb
from sendonce.domain.durations import format_duration
from sendonce.domain.requests import RecipientState, RequestState, RequestStatus
from sendonce.store.filters import Page
from sendonce.store.records import RequestRow

if TYPE_CHECKING:
    from sendonce.admin.api import Admin

DEFAULT_TIMEOUT = timedelta(minutes=1)
_COLOURS = {
    RequestStatus.IN_PROGRESS: None,
    RequestStatus.RETRYABLE_FAILED: "red",
    RequestStatus.SUCCEEDED: "green",
}
_ID = id_of("request")


@verb(
    "requests list",
    "list requests, the newest first",
    argument("--subject", metavar="TEXT", help="only of this subject"),
    argument("--status", type=request_status, metavar="STATUS", help=f"only these: {', '.join(RequestStatus)}"),
    TYPE,
    TENANT,
    *PAGE,
)
async def list_requests(admin: "Admin", args: argparse.Namespace) -> Page[RequestRow]:
    return await admin.arequests(**wanted_of(args))


@list_requests.text
def _(page: Page[RequestRow], limit: int) -> Iterator[Line]:
    return listed(page, _table, "requests", limit)


def _table(requests: Page[RequestRow]) -> Table:
    at = now()
    rows = [
        [
            Cell(str(each.id)),
            Cell(each.status, _COLOURS[each.status]),
            Cell(each.type),
            Cell(each.subject),
            Cell(str(each.version)),
            Cell(_progress(each)),
            Cell(each.tenant),
            when(each.created_at, at),
        ]
        for each in requests
    ]
    return Table(["ID", "STATE", "TYPE", "SUBJECT", "VERSION", "NOTIFIED", "TENANT", "RECORDED"], rows)


def _progress(request: RequestRow) -> str:
    given_up = f", {request.given_up} given up" if request.given_up else ""
    return f"{request.notified} of {request.required}{given_up}"


@verb("requests show", "show one request and its recipients", _ID)
async def show_request(admin: "Admin", id: int) -> RequestState:
    return await admin.arequest(id)


@show_request.text
def _(state: RequestState) -> Iterator[str]:
    names = ["id", "status", "tenant", "type", "subject", "version", "event_id", "created_at"]
    yield from field_lines([(name, getattr(state, name)) for name in names], now())
    yield from (_recipient(each) for each in state.recipients)


def _recipient(recipient: RecipientState) -> str:
    goes = one_line(recipient.destination, 2000)
    if recipient.sent_to is not None and recipient.sent_to != recipient.destination:
        goes += f", corrected to {one_line(recipient.sent_to, 2000)}"
    error = (
        "" if recipient.notified_at or not recipient.final_error_code else f"  {one_line(recipient.final_error_code)}"
    )
    kind = "required" if recipient.is_required else "optional"
    return f"{kind}  delivery {recipient.delivery_id}  {recipient.status}  {goes}{error}"


@verb(
    "requests wait",
    "wait until a request has succeeded or failed",
    _ID,
    argument(
        "--timeout",
        type=duration,
        default=DEFAULT_TIMEOUT,
        metavar="TIME",
        help=f"how long to wait: 30s, 5m (default {format_duration(DEFAULT_TIMEOUT)})",
    ),
)
async def wait(admin: "Admin", id: int, timeout: timedelta) -> RequestState:
    # Here and below: it brings an event loop, which --help has no use for.
    from sendonce.admin.deliveries import request_sentence

    state = await admin.await_for_request(id, timeout)
    if state.status is not RequestStatus.SUCCEEDED:
        late = f"; {format_duration(timeout)} are over" if state.status is RequestStatus.IN_PROGRESS else ""
        warn(f"{request_sentence(state)}{late}; see: sendonce requests show {state.id}")
    return state


@wait.text
def _(state: RequestState) -> Iterator[str]:
    from sendonce.admin.deliveries import request_sentence

    if state.status is RequestStatus.SUCCEEDED:
        yield request_sentence(state)


@wait.code
def _(state: RequestState) -> int:
    return 0 if state.status is RequestStatus.SUCCEEDED else 1
