"""The ledger: accounts, transfers, and one decision for each order, all in the caller's transaction."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, Select, Table, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from apps.chancepay.comparison import is_about
from apps.chancepay.contract import LARGEST, Order, Report
from apps.chancepay.wallet.rules import OUTSIDE, Booked, Decision, Original, decide
from apps.chancepay.wallet.tables import accounts, conflicts, decisions, transfers
from sendonce import NotAllowed, NotFound

_HALF = 2**32


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of an order. `is_new`: this call has decided it; else it was decided before, and nothing was done."""

    report: Report
    is_new: bool


@dataclass(frozen=True, slots=True)
class OtherContent:
    """Its uuid is that of another order, which is decided: refused, and listed for a person."""


async def take(connection: AsyncConnection, order: Order, message_id: str) -> Taken | OtherContent:
    """Decide an order and carry it out, once for each uuid, whoever else has it at this moment."""
    known = await _decided(connection, order, message_id)
    if known is not None:
        return known
    original = await _original(connection, order)
    decision = decide(order, await _balance(connection, order.wallet), original)
    report = _report(order, decision)
    # The unique key on the uuid decides who is first; whoever is second waits here until the first has committed.
    if not await _insert_once(connection, decisions, _row(order) | {"status": report.status, "reason": report.reason}):
        known = await _decided(connection, order, message_id)
        assert known is not None, "the database has refused this uuid, so it is there"  # noqa: S101
        return known
    if isinstance(decision, Booked):
        await _book(connection, order, decision)
    return Taken(report, is_new=True)


async def open_wallet(connection: AsyncConnection, wallet: str) -> bool:
    """Open an empty wallet; False when it was there already."""
    row = {"id": wallet, "balance": 0, "opened_at": datetime.now(UTC)}
    return await _insert_once(connection, accounts, row)


async def balance_of(connection: AsyncConnection, wallet: str) -> int:
    found: int | None = await connection.scalar(select(accounts.c.balance).where(accounts.c.id == wallet))
    if found is None:
        raise NotFound(f"there is no wallet {wallet}")
    return found


async def deposit(connection: AsyncConnection, wallet: str, uuid: UUID, amount: int) -> bool:
    """Pay in from outside; False when it was done before. NotAllowed for a uuid that stands for something else."""
    balance = await _balance(connection, wallet)
    if balance is None:
        raise NotFound(f"there is no wallet {wallet}")
    row = {"uuid": uuid, "kind": "deposit", "debit": OUTSIDE, "credit": wallet, "amount": amount}
    known = await _one(connection, select(transfers).where(transfers.c.uuid == uuid))
    if known is None:
        if amount > LARGEST - balance:
            raise NotAllowed(f"amount: the wallet cannot hold more than {LARGEST}")
        if await _insert_once(connection, transfers, row | {"created_at": datetime.now(UTC)}):
            return True
        known = await _one(connection, select(transfers).where(transfers.c.uuid == uuid))
    if known is None or any(known[name] != value for name, value in row.items()):
        raise NotAllowed("uuid: it was used before, for something else; use one of its own")
    return False


async def transfers_of(connection: AsyncConnection, wallet: str, before: int, limit: int) -> list[RowMapping]:
    """What went in and out of a wallet, newest first, from the number below this one on."""
    query = (
        select(transfers)
        .where(or_(transfers.c.debit == wallet, transfers.c.credit == wallet), transfers.c.number < before)
        .order_by(transfers.c.number.desc())
        .limit(limit)
    )
    return list((await connection.execute(query)).mappings())


async def audit(connection: AsyncConnection) -> list[str]:
    """What does not add up: balances against their transfers, decisions against their transfers. Reads everything."""
    found = []
    credits, debits = [await _sums(connection, side) for side in (transfers.c.credit, transfers.c.debit)]
    rows = (await connection.execute(select(accounts.c.id, accounts.c.balance).order_by(accounts.c.id))).all()
    for wallet, balance in rows:
        moved = credits.get(wallet, 0) - debits.get(wallet, 0)
        if balance is not None and balance != moved:
            found.append(f"wallet {wallet} has {balance}, its transfers say {moved}")
    lonely = (
        select(decisions.c.uuid)
        .join(transfers, transfers.c.uuid == decisions.c.uuid, isouter=True)
        .where((decisions.c.status == "SUCCEED") != transfers.c.number.is_not(None))
        .order_by(decisions.c.number)
        .limit(100)
    )
    found += [f"{uuid} is decided otherwise than it was booked" for uuid in await connection.scalars(lonely)]
    return found


async def _decided(connection: AsyncConnection, order: Order, message_id: str) -> Taken | OtherContent | None:
    row = await _one(connection, select(decisions).where(decisions.c.uuid == order.uuid))
    if row is None:
        return None
    report = report_of(row)
    if is_about(report, order):
        return Taken(report, is_new=False)
    await _insert_once(connection, conflicts, _row(order) | {"message_id": message_id})
    return OtherContent()


def report_of(row: RowMapping) -> Report:
    """What was decided, as the other side hears it."""
    return Report(**{name: row[name] for name in Report.model_fields})


async def _book(connection: AsyncConnection, order: Order, decision: Booked) -> None:
    row = {"uuid": order.uuid, "kind": order.kind, "amount": order.amount, "created_at": datetime.now(UTC)}
    await connection.execute(insert(transfers).values(row | {"debit": decision.debit, "credit": decision.credit}))
    if order.refund_of is not None:
        given_back = {"refunded": decisions.c.refunded + order.amount}
        await connection.execute(update(decisions).where(decisions.c.uuid == order.refund_of).values(given_back))


async def _original(connection: AsyncConnection, order: Order) -> Original | None:
    """The payment that a refund is of; whoever else gives it back waits."""
    if order.refund_of is None:
        return None
    query = select(decisions).where(decisions.c.uuid == order.refund_of, decisions.c.kind == "payment")
    row = await _one(connection, query.with_for_update())
    if row is None:
        return None
    return Original(wallet=row["wallet"], amount=row["amount"], refunded=row["refunded"], status=row["status"])


async def _balance(connection: AsyncConnection, wallet: str) -> int | None:
    """The balance, which nobody else changes until we have committed; None when there is no such wallet."""
    query = select(accounts.c.balance).where(accounts.c.id == wallet).with_for_update()
    found: int | None = await connection.scalar(query)
    return found


def _report(order: Order, decision: Decision) -> Report:
    about = order.model_dump(exclude={"uuid"})
    if isinstance(decision, Booked):
        return Report(**about, status="SUCCEED")
    return Report(**about, status="FAILED", reason=decision.reason)


def _row(order: Order) -> dict[str, Any]:
    return order.model_dump() | {"created_at": datetime.now(UTC)}


async def _sums(connection: AsyncConnection, side: Any) -> dict[str, int]:
    """What each account has on this side: in halves, because the whole may be more than a database can add up."""
    query = select(side, func.sum(transfers.c.amount // _HALF), func.sum(transfers.c.amount % _HALF)).group_by(side)
    return {wallet: int(high) * _HALF + int(low) for wallet, high, low in await connection.execute(query)}


async def _insert_once(connection: AsyncConnection, table: Table, row: dict[str, Any]) -> bool:
    """Insert a row unless one with its unique key is there; whether it was inserted."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    added = dialect.insert(table).values(row).on_conflict_do_nothing().returning(*table.primary_key)
    return (await connection.execute(added)).one_or_none() is not None


async def _one(connection: AsyncConnection, query: Select[Any]) -> RowMapping | None:
    found: RowMapping | None = (await connection.execute(query)).mappings().one_or_none()
    return found
