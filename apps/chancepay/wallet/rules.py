"""The wallet's rules: what an order comes to, from what the ledger has. No database, no clock."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from apps.chancepay.contract import LARGEST, Order, Reason

# The two books that are not ours: what comes in from outside, and what was paid. Theirs is the sum of their transfers.
OUTSIDE, PAID = "book:outside", "book:paid"


@dataclass(frozen=True, slots=True)
class Original:
    """The payment that a refund is of: what was taken, and how much of it was given back already."""

    wallet: str
    amount: int
    refunded: int
    status: Literal["SUCCEED", "FAILED"]


@dataclass(frozen=True, slots=True)
class Booked:
    """Do it: so much from one account to another."""

    debit: str
    credit: str


@dataclass(frozen=True, slots=True)
class Declined:
    """It cannot be, and will not be later: the order has failed."""

    reason: Reason


Decision: TypeAlias = Booked | Declined


def decide(order: Order, balance: int | None, original: Original | None) -> Decision:
    """Say what an order comes to. `balance` is None when there is no such wallet."""
    if balance is None:
        return Declined("unknown_wallet")
    if order.kind == "refund":
        return _refund(order, balance, original)
    if balance < order.amount:
        return Declined("insufficient_balance")
    return Booked(debit=order.wallet, credit=PAID)


def _refund(order: Order, balance: int, original: Original | None) -> Decision:
    if original is None or original.status != "SUCCEED" or original.wallet != order.wallet:
        return Declined("unknown_payment")
    if order.amount > original.amount - original.refunded:
        return Declined("refund_too_large")
    if order.amount > LARGEST - balance:
        return Declined("balance_too_large")
    return Booked(debit=PAID, credit=order.wallet)
