"""What the requests' side and a reconciliation ask the wallet, with keys of their own."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Path, Query, Request

from apps.chancepay.contract import LARGEST, LARGEST_PAGE, Orders, WalletId, WalletPage, WalletView
from apps.chancepay.keys import Caller, calling
from apps.chancepay.wallet import ledger, views
from apps.chancepay.wallet.models import Audit, Conflict, Conflicts, Wallet
from sendonce.contrib.sqlalchemy import areading

router = APIRouter(prefix="/internal", tags=["internal"])

Calling: TypeAlias = Annotated[Caller, Depends(calling("internal"))]


@router.get("/wallets/{wallet}")
async def get_wallet(wallet: Annotated[WalletId, Path()], caller: Calling, request: Request) -> Wallet:
    """Whether there is such a wallet."""
    async with areading(request.app.state.engine) as connection:
        return Wallet(id=wallet, balance=await ledger.balance_of(connection, wallet))


@router.get("/payments")
async def list_payments(
    caller: Calling,
    request: Request,
    after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = LARGEST_PAGE,
) -> WalletPage:
    """Every decision, oldest first."""
    async with areading(request.app.state.engine) as connection:
        return await views.page(connection, after, limit)


@router.post("/payments/look-up")
async def look_up(wanted: Orders, caller: Calling, request: Request) -> list[WalletView]:
    """What is known of these orders: decided, failed at, or refused because of another content."""
    async with areading(request.app.state.engine) as connection:
        return await views.of_orders(connection, wanted.orders)


@router.get("/conflicts")
async def list_conflicts(
    caller: Calling,
    request: Request,
    before: Annotated[int, Query(ge=1, le=LARGEST)] = LARGEST,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 100,
) -> Conflicts:
    """Messages with the uuid of a decided order and other content, newest first."""
    async with areading(request.app.state.engine) as connection:
        rows = await views.conflicts_page(connection, before, limit)
    page = [Conflict.model_validate(dict(row)) for row in rows]
    return Conflicts(conflicts=page, next=page[-1].number if len(page) == limit else None)


@router.get("/audit")
async def audit(caller: Calling, request: Request) -> Audit:
    """Add up the whole ledger, at one moment."""
    async with areading(request.app.state.engine, isolation_level="REPEATABLE READ") as connection:
        return Audit(findings=await ledger.audit(connection))
