"""What goes between the two services: an order over the broker, a report over HTTP, and what each can be asked."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

# What both databases store in eight bytes.
LARGEST = 2**63 - 1
LARGEST_PAGE = 500

Amount: TypeAlias = Annotated[
    int, Field(strict=True, ge=1, le=LARGEST, description="in the smallest unit of the currency", examples=[1250])
]
WalletId: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", examples=["ada"])]
Kind: TypeAlias = Literal["payment", "refund"]
Settled: TypeAlias = Literal["SUCCEED", "FAILED"]
Status: TypeAlias = Literal["PENDING", "SUCCEED", "FAILED"]
# Why a payment or a refund has failed. None of them passes by itself, so none is tried again.
Reason: TypeAlias = Literal[
    "insufficient_balance", "unknown_wallet", "unknown_payment", "refund_too_large", "balance_too_large"
]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Order(Model):
    """The message: take this amount from a wallet, or for a refund, give it back."""

    uuid: UUID
    kind: Kind
    wallet: WalletId
    amount: Amount
    refund_of: UUID | None = None


class Report(Model):
    """What came of an order. It says which order, so that a report for other content is refused."""

    kind: Kind
    wallet: WalletId
    amount: Amount
    refund_of: UUID | None = None
    status: Settled
    reason: Reason | None = None


class Failure(Model):
    """What the wallet's listener could not do with a message; `is_over`: nobody tries it again by itself."""

    error: str
    tries: int
    is_over: bool


class WalletView(Model):
    """What the wallet knows of one uuid: what came of it, or that its listener failed, or other content refused."""

    uuid: UUID
    report: Report | None = None
    reported: Annotated[bool | None, Field(description="null: nobody has kept whether the report arrived")] = None
    failure: Failure | None = None
    refused: Annotated[int, Field(description="how many messages with this uuid and other content were refused")] = 0


class WalletPage(Model):
    """A page of what the wallet knows, oldest first; `next` asks for the one after it, null on the last."""

    payments: list[WalletView]
    next: int | None


class LookUp(Model):
    """Which requests are asked about."""

    uuids: Annotated[list[UUID], Field(min_length=1, max_length=LARGEST_PAGE)]


class Orders(Model):
    """Which orders are asked about, whole: the wallet knows a message by its content too."""

    orders: Annotated[list[Order], Field(min_length=1, max_length=LARGEST_PAGE)]


class Publication(Model):
    """How far the message is on its way to the broker.

    waiting: not there yet, and tried (again) by itself. published: the broker has it. given_up: all tries are used, or
    it was refused; a person can requeue it. `in_doubt`: it may be there all the same.
    """

    state: Literal["waiting", "published", "given_up"]
    attempts: int
    error: str | None = None
    in_doubt: bool = False


class RequestView(Model):
    """What the requests' side knows of one uuid. `publication` is null when its history is no longer kept."""

    order: Order
    status: Status
    reason: Reason | None
    created_at: datetime
    publication: Publication | None


class RequestPage(Model):
    """A page of requests, oldest first; `next` asks for the one after it, null on the last."""

    requests: list[RequestView]
    next: int | None
