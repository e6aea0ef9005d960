"""What callers do: request payments and refunds, and see what became of their own."""

from typing import Annotated, Any, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from apps.chancepay.contract import LARGEST
from apps.chancepay.keys import Caller, calling
from apps.chancepay.requests import views
from apps.chancepay.requests.models import NewPayment, NewRefund, Payment, Payments
from apps.chancepay.requests.payments import Requests
from apps.chancepay.requests.wallets import KnownWallets
from apps.chancepay.settings import Mode

router = APIRouter(prefix="/payments", tags=["payments"])

Calling: TypeAlias = Annotated[Caller, Depends(calling("caller"))]
KNOWN: dict[int | str, dict[str, Any]] = {
    200: {"model": Payment, "description": "It was there already, with this content"}
}


@router.post("", status_code=201, responses=KNOWN)
async def pay(wanted: NewPayment, caller: Calling, request: Request, response: Response) -> Payment:
    """Request a payment: PENDING until the wallet has decided. The same `uuid` again gives the one that is there."""
    wallets: KnownWallets = request.app.state.wallets
    if not await wallets.may_have(wanted.wallet):
        raise HTTPException(422, f"wallet: there is no wallet {wanted.wallet}")
    uuid, is_new = await _service(request).pay(caller.name, wanted)
    response.status_code = 201 if is_new else 200
    return await get_payment(uuid, caller, request)


@router.post("/{uuid}/refunds", status_code=201, responses=KNOWN)
async def refund(uuid: UUID, wanted: NewRefund, caller: Calling, request: Request, response: Response) -> Payment:
    """Give back some or all of a payment that has succeeded."""
    made, is_new = await _service(request).refund(caller.name, uuid, wanted)
    response.status_code = 201 if is_new else 200
    return await get_payment(made, caller, request)


@router.get("/{uuid}")
async def get_payment(uuid: UUID, caller: Calling, request: Request) -> Payment:
    """A payment or a refund, and what became of it."""
    return views.payment(await _service(request).find(caller.name, uuid), explained=_is_explained(request))


@router.get("")
async def list_payments(
    caller: Calling,
    request: Request,
    before: Annotated[int, Query(ge=1, le=LARGEST)] = LARGEST,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Payments:
    """Your own, newest first; `before` is the `next` of the page before."""
    rows = await _service(request).page(caller.name, before, limit)
    page = [views.payment(row, explained=_is_explained(request)) for row in rows]
    return Payments(payments=page, next=rows[-1]["number"] if len(rows) == limit else None)


def _service(request: Request) -> Requests:
    service: Requests = request.app.state.requests
    return service


def _is_explained(request: Request) -> bool:
    return request.app.state.mode is Mode.SURE
