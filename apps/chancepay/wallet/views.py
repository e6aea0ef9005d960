"""Decisions, failures and conflicts as the other side asks for them."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, Select, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from apps.chancepay.contract import Failure, Order, WalletPage, WalletView
from apps.chancepay.wallet.ledger import report_of
from apps.chancepay.wallet.listener import message_id_of
from apps.chancepay.wallet.tables import conflicts, decisions, failures, report_deliveries


async def page(connection: AsyncConnection, after: int, limit: int) -> WalletPage:
    """Decisions from the number above this one on."""
    query = _decisions().where(decisions.c.number > after).order_by(decisions.c.number).limit(limit)
    rows = (await connection.execute(query)).mappings().all()
    found = [_decided(row) for row in rows]
    return WalletPage(payments=found, next=rows[-1]["number"] if len(rows) == limit else None)


async def of_orders(connection: AsyncConnection, orders: Sequence[Order]) -> list[WalletView]:
    """What is known of each of these; nothing of those that the wallet has never seen."""
    uuids = [order.uuid for order in orders]
    rows = (await connection.execute(_decisions().where(decisions.c.uuid.in_(uuids)))).mappings()
    found = {row["uuid"]: _decided(row) for row in rows}
    by_message = {message_id_of(order): order.uuid for order in orders}
    refused = await _refused(connection, uuids)
    for row in await connection.execute(select(failures).where(failures.c.message_id.in_(by_message))):
        uuid = by_message[row.message_id]
        failure = Failure(error=row.error or "its process died", tries=row.tries, is_over=row.status == "DeadLettered")
        found[uuid] = found.get(uuid, WalletView(uuid=uuid)).model_copy(update={"failure": failure})
    for uuid, amount in refused.items():
        found[uuid] = found.get(uuid, WalletView(uuid=uuid)).model_copy(update={"refused": amount})
    return list(found.values())


async def conflicts_page(connection: AsyncConnection, before: int, limit: int) -> Sequence[RowMapping]:
    query = select(conflicts).where(conflicts.c.number < before).order_by(conflicts.c.number.desc()).limit(limit)
    return (await connection.execute(query)).mappings().all()


async def _refused(connection: AsyncConnection, uuids: Sequence[UUID]) -> dict[UUID, int]:
    query = select(conflicts.c.uuid, func.count()).where(conflicts.c.uuid.in_(uuids)).group_by(conflicts.c.uuid)
    return {uuid: amount for uuid, amount in await connection.execute(query)}


def _decisions() -> Select[Any]:
    sent = report_deliveries.c
    return select(decisions, sent.status.label("delivery_status")).join_from(
        decisions, report_deliveries, sent.event_id == decisions.c.event_id, isouter=True
    )


def _decided(row: RowMapping) -> WalletView:
    status = row["delivery_status"]
    return WalletView(
        uuid=row["uuid"], report=report_of(row), reported=None if status is None else status == "Completed"
    )
