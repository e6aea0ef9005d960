"""What the wallet's side and a reconciliation do, with keys of their own."""

from typing import Annotated, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request

from apps.chancepay.contract import LARGEST, LARGEST_PAGE, LookUp, Report, RequestPage, RequestView
from apps.chancepay.keys import Caller, calling
from apps.chancepay.requests import views
from apps.chancepay.requests.models import Finding, Republished, Settlement
from apps.chancepay.requests.payments import Requests
from sendonce import Admin, NotAllowed, NotFound

router = APIRouter(prefix="/internal/requests", tags=["internal"])

Calling: TypeAlias = Annotated[Caller, Depends(calling("internal"))]


@router.put("/{uuid}")
async def report(uuid: UUID, reported: Report, caller: Calling, request: Request) -> Settlement:
    """Say what came of a request. The same again changes nothing; anything else about a decided one is refused."""
    return Settlement(known=not await _service(request).settle(uuid, reported, caller.name))


@router.get("")
async def list_requests(
    caller: Calling,
    request: Request,
    after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    pending: bool = False,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = LARGEST_PAGE,
) -> RequestPage:
    """Everybody's, oldest first; with `pending`, those that are not decided."""
    rows = await _service(request).everybodys(after, limit, only_pending=pending)
    found = [views.request(row) for row in rows]
    return RequestPage(requests=found, next=rows[-1]["number"] if len(rows) == limit else None)


@router.post("/look-up")
async def look_up(wanted: LookUp, caller: Calling, request: Request) -> list[RequestView]:
    """Those of these that are there."""
    return [views.request(row) for row in await _service(request).known(wanted.uuids)]


@router.put("/{uuid}/finding", status_code=204)
async def note(uuid: UUID, finding: Finding, caller: Calling, request: Request) -> None:
    """Keep why a request stays PENDING, for its caller to see."""
    await _service(request).note(uuid, finding)


@router.post("/{uuid}/publish", status_code=202)
async def publish_again(uuid: UUID, caller: Calling, request: Request) -> Republished:
    """Take the message of a request to the broker once more: it was given up, or the broker has lost it."""
    admin: Admin = request.app.state.admin
    rows = await _service(request).known([uuid])
    if not rows:
        raise NotFound(f"there is no request {uuid}")
    letter, delivery = rows[0]["dead_letter_id"], rows[0]["delivery_id"]
    if rows[0]["status"] != "PENDING":
        raise NotAllowed(f"this request is {rows[0]['status']} already")
    admin = admin.as_operator(caller.name)
    # The wallet takes each uuid once, so what may be there already can be sent again.
    if letter is not None:
        [reopened] = await admin.arequeue([letter], reason="reconciled: never published", even_if_sent=True)
    elif rows[0]["delivery_status"] == "Completed":
        [reopened] = await admin.areplay([delivery], reason="reconciled: not seen by the wallet", even_if_sent=True)
    else:
        raise NotAllowed("this request's message is on its way, or somebody has decided that it is not sent")
    return Republished(delivery_id=reopened.delivery_id)


def _service(request: Request) -> Requests:
    service: Requests = request.app.state.requests
    return service
