"""Payments and refunds: recorded with their message in one transaction, and decided once by what the wallet reports."""

import logging
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import RowMapping, Select, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from apps.chancepay.comparison import is_about
from apps.chancepay.contract import Order, Report
from apps.chancepay.requests.models import Finding, NewPayment, NewRefund
from apps.chancepay.requests.tables import publications, requests
from sendonce import BadEvent, NotAllowed, NotFound, Outbox
from sendonce.contrib.sqlalchemy import ain_transaction, areading

TYPE = "chancepay.order"

_log = logging.getLogger("chancepay.requests")
_outbox = Outbox()


class Requests:
    """What the service does. `broker` is where orders go: a destination like nats:main/payments."""

    def __init__(self, engine: AsyncEngine, broker: str) -> None:
        self._engine = engine
        self._broker = broker

    async def pay(self, owner: str, wanted: NewPayment) -> tuple[UUID, bool]:
        """Record a payment and its message: both, or neither. Its uuid, and whether it is new."""
        order = Order(uuid=wanted.uuid or uuid4(), kind="payment", wallet=wanted.wallet, amount=wanted.amount)
        return order.uuid, await ain_transaction(self._engine, lambda connection: self.record(connection, owner, order))

    async def refund(self, owner: str, payment: UUID, wanted: NewRefund) -> tuple[UUID, bool]:
        """The same for a refund. Whoever asks back at the same time waits, so that it is never more than was paid."""
        uuid = wanted.uuid or uuid4()

        async def work(connection: AsyncConnection) -> bool:
            row = await _row(connection, select(requests).where(requests.c.uuid == payment).with_for_update())
            if row is None or row["owner"] != owner or row["kind"] != "payment":
                raise NotFound(f"there is no payment {payment}")
            order = Order(uuid=uuid, kind="refund", wallet=row["wallet"], amount=wanted.amount, refund_of=payment)
            if not await self.record(connection, owner, order):
                return False
            if row["status"] != "SUCCEED":
                raise NotAllowed(f"this payment is {row['status']}; only one that is SUCCEED can be refunded")
            left = row["amount"] - row["refunded"]
            if wanted.amount > left:
                raise NotAllowed(f"amount: it is too large: at most {left} of this payment can be given back")
            await _add_to_refunded(connection, payment, wanted.amount)
            return True

        return uuid, await ain_transaction(self._engine, work)

    async def settle(self, uuid: UUID, report: Report, by: str) -> bool:
        """Take a report. False when the same was reported before; NotAllowed for one that says something else."""

        async def work(connection: AsyncConnection) -> bool:
            row = await _row(connection, select(requests).where(requests.c.uuid == uuid).with_for_update())
            if row is None:
                raise NotFound(f"there is no request {uuid}")
            if not is_about(report, order_of(row)):
                raise NotAllowed("the report is about another amount, wallet or kind; nothing was changed")
            if row["status"] == "PENDING":
                await _decide(connection, row, report, by)
                return True
            if (row["status"], row["reason"]) != (report.status, report.reason):
                raise NotAllowed(f"this request is {row['status']} already; nothing was changed")
            return False

        try:
            return await ain_transaction(self._engine, work)
        except (NotFound, NotAllowed) as error:
            _log.warning("report about %s refused: %s", uuid, error)
            raise

    async def note(self, uuid: UUID, finding: Finding) -> None:
        """Keep what a reconciliation found; nothing, when the request is decided meanwhile."""
        noted = (
            update(requests)
            .where(requests.c.uuid == uuid, requests.c.status == "PENDING")
            .values(finding=finding.why, finding_detail=finding.detail)
        )

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(noted)

        await ain_transaction(self._engine, work)
        _log.warning("request %s stays PENDING: %s, %s", uuid, finding.why, finding.detail)

    async def find(self, owner: str, uuid: UUID) -> RowMapping:
        """The caller's own request, with how far its message is."""
        async with areading(self._engine) as connection:
            row = await _row(connection, _with_publication().where(requests.c.uuid == uuid))
        if row is None or row["owner"] != owner:
            raise NotFound(f"there is no payment {uuid}")
        return row

    async def page(self, owner: str, before: int, limit: int) -> list[RowMapping]:
        """The caller's own, newest first, from the number below this one on."""
        query = (
            _with_publication()
            .where(requests.c.owner == owner, requests.c.number < before)
            .order_by(requests.c.number.desc())
            .limit(limit)
        )
        return await self._rows(query)

    async def everybodys(self, after: int, limit: int, *, only_pending: bool) -> list[RowMapping]:
        """Everybody's, oldest first, from the number above this one on."""
        query = _with_publication().where(requests.c.number > after).order_by(requests.c.number).limit(limit)
        return await self._rows(query.where(requests.c.status == "PENDING") if only_pending else query)

    async def known(self, uuids: list[UUID]) -> list[RowMapping]:
        """Those of these that are there."""
        return await self._rows(_with_publication().where(requests.c.uuid.in_(uuids)).order_by(requests.c.number))

    async def record(self, connection: AsyncConnection, owner: str, order: Order) -> bool:
        """Write the request and its message; False when it was there already. Another content is refused."""
        if await _is_known(connection, owner, order):
            return False
        # The database refuses a second event of this key, so whoever records the same uuid now waits for us.
        published = await _outbox.apublish(
            connection, TYPE, order.model_dump(mode="json"), key=str(order.uuid), to=self._broker
        )
        if published.duplicate:
            if await _is_known(connection, owner, order):
                return False
            raise BadEvent(f"uuid: {order.uuid} was used for something else; use one of its own")
        row = order.model_dump() | {"owner": owner, "event_id": published.event_id, "created_at": datetime.now(UTC)}
        await connection.execute(insert(requests).values(row))
        return True

    async def _rows(self, query: Select[Any]) -> list[RowMapping]:
        async with areading(self._engine) as connection:
            return list((await connection.execute(query)).mappings())


def order_of(row: RowMapping) -> Order:
    """What the request asks of the wallet."""
    return Order(**{name: row[name] for name in Order.model_fields})


async def _is_known(connection: AsyncConnection, owner: str, order: Order) -> bool:
    row = await _row(connection, select(requests).where(requests.c.uuid == order.uuid))
    if row is None:
        return False
    if row["owner"] != owner or order_of(row) != order:
        raise NotAllowed("uuid: it was used before, for something else; use one of its own")
    return True


async def _decide(connection: AsyncConnection, row: RowMapping, report: Report, by: str) -> None:
    decided = {"status": report.status, "reason": report.reason, "settled_at": datetime.now(UTC), "settled_by": by}
    cleared = {"finding": None, "finding_detail": None}
    await connection.execute(update(requests).where(requests.c.uuid == row["uuid"]).values(decided | cleared))
    if report.status == "FAILED" and row["refund_of"] is not None:
        await _add_to_refunded(connection, row["refund_of"], -row["amount"])


async def _add_to_refunded(connection: AsyncConnection, payment: UUID, amount: int) -> None:
    added = {"refunded": requests.c.refunded + amount}
    await connection.execute(update(requests).where(requests.c.uuid == payment).values(added))


def _with_publication() -> Select[Any]:
    message = publications.c
    return select(
        requests,
        message.status.label("delivery_status"),
        message.delivery_id,
        message.attempts,
        message.error,
        message.in_doubt,
        message.dead_letter_id,
    ).join_from(requests, publications, message.event_id == requests.c.event_id, isouter=True)


async def _row(connection: AsyncConnection, query: Select[Any]) -> RowMapping | None:
    found: RowMapping | None = (await connection.execute(query)).mappings().one_or_none()
    return found
