"""What callers send to the wallet's side, and what they are answered."""

from datetime import datetime
from uuid import UUID

from apps.chancepay.contract import Amount, Kind, Model, WalletId


class NewWallet(Model):
    id: WalletId


class Wallet(Model):
    """A wallet and what is in it."""

    id: WalletId
    balance: int


class Deposit(Model):
    """Pay in from outside. The same `uuid` again pays in nothing more."""

    uuid: UUID
    amount: Amount


class Transfer(Model):
    """One movement: `debit` gives, `credit` takes. Those that begin with book: are not wallets."""

    number: int
    uuid: UUID
    kind: str
    debit: str
    credit: str
    amount: int
    created_at: datetime


class Transfers(Model):
    """A page, newest first; `next` asks for the one after it, null on the last."""

    transfers: list[Transfer]
    next: int | None


class Conflict(Model):
    """A message with the uuid of a decided order and other content: it was refused, and waits for a person."""

    number: int
    uuid: UUID
    message_id: str
    kind: Kind
    wallet: WalletId
    amount: int
    refund_of: UUID | None
    created_at: datetime


class Conflicts(Model):
    """A page, newest first; `next` asks for the one after it, null on the last."""

    conflicts: list[Conflict]
    next: int | None


class Audit(Model):
    """What does not add up in the ledger: nothing, as long as the database holds its rules."""

    findings: list[str]
