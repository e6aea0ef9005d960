"""What callers send to the requests' side, and what they are answered."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from apps.chancepay.comparison import Why
from apps.chancepay.contract import Amount, Kind, Model, Reason, Status, WalletId


class NewPayment(Model):
    """Take this amount from a wallet. With a `uuid` of yours it can be sent again when the answer was lost."""

    uuid: UUID | None = None
    wallet: WalletId
    amount: Amount


class NewRefund(Model):
    """Give back this much of a payment that has succeeded: all refunds together at most what was paid."""

    uuid: UUID | None = None
    amount: Amount


class Pending(Model):
    """Why a request is still PENDING."""

    why: Why
    detail: str


class Payment(Model):
    """A payment or a refund. `reason` says why it has FAILED, `pending` why it is still PENDING (mode "sure")."""

    uuid: UUID
    kind: Kind
    wallet: WalletId
    amount: Amount
    refund_of: UUID | None
    refunded: Annotated[int, Field(description="of a payment: what refunds have asked back that have not failed")]
    status: Status
    reason: Reason | None
    pending: Pending | None
    created_at: datetime
    settled_at: datetime | None


class Payments(Model):
    """A page, newest first; `next` asks for the one after it, null on the last."""

    payments: list[Payment]
    next: int | None


class Settlement(Model):
    """What a report did; `known`: the same was reported before, and nothing has changed."""

    known: bool


class Finding(Model):
    """What a reconciliation found about a request that stays PENDING."""

    why: Why
    detail: Annotated[str, Field(max_length=500)]


class Republished(Model):
    """The delivery that takes the message to the broker once more."""

    delivery_id: int
