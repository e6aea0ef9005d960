"""What callers do: open wallets, pay in, and see balances and movements."""

from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from apps.chancepay.contract import LARGEST, WalletId
from apps.chancepay.keys import Caller, calling
from apps.chancepay.wallet import ledger
from apps.chancepay.wallet.models import Deposit, NewWallet, Transfer, Transfers, Wallet
from sendonce.contrib.sqlalchemy import ain_transaction, areading

router = APIRouter(prefix="/wallets", tags=["wallets"])

Calling: TypeAlias = Annotated[Caller, Depends(calling("caller"))]
Id: TypeAlias = Annotated[WalletId, Path()]
KNOWN: dict[int | str, dict[str, Any]] = {
    200: {"model": Wallet, "description": "It was done before, and nothing has changed"}
}


@router.post("", status_code=201, responses=KNOWN)
async def open_wallet(wanted: NewWallet, caller: Calling, request: Request, response: Response) -> Wallet:
    """Open an empty wallet; one that is there already stays as it is."""
    is_new = await ain_transaction(
        request.app.state.engine, lambda connection: ledger.open_wallet(connection, wanted.id)
    )
    response.status_code = 201 if is_new else 200
    return await get_wallet(wanted.id, caller, request)


@router.get("/{wallet}")
async def get_wallet(wallet: Id, caller: Calling, request: Request) -> Wallet:
    """A wallet and what is in it."""
    async with areading(request.app.state.engine) as connection:
        return Wallet(id=wallet, balance=await ledger.balance_of(connection, wallet))


@router.post("/{wallet}/deposits", status_code=201, responses=KNOWN)
async def deposit(wallet: Id, wanted: Deposit, caller: Calling, request: Request, response: Response) -> Wallet:
    """Pay in from outside."""
    is_new = await ain_transaction(
        request.app.state.engine,
        lambda connection: ledger.deposit(connection, wallet, wanted.uuid, wanted.amount),
    )
    response.status_code = 201 if is_new else 200
    return await get_wallet(wallet, caller, request)


@router.get("/{wallet}/transfers")
async def list_transfers(
    wallet: Id,
    caller: Calling,
    request: Request,
    before: Annotated[int, Query(ge=1, le=LARGEST)] = LARGEST,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Transfers:
    """What went in and out, newest first; `before` is the `next` of the page before."""
    async with areading(request.app.state.engine) as connection:
        await ledger.balance_of(connection, wallet)
        rows = await ledger.transfers_of(connection, wallet, before, limit)
    page = [Transfer.model_validate(dict(row)) for row in rows]
    return Transfers(transfers=page, next=page[-1].number if len(page) == limit else None)
