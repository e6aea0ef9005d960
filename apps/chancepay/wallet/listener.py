"""The listener: takes orders from the broker, each once, and says what came of it.

order ──▶ one transaction: receipt + decision + transfer (+ report, mode "sure") ──▶ (one try to report, mode
"chance") ──▶ acknowledged
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

import sendonce
from apps.chancepay.contract import Order, Report
from apps.chancepay.guards import check_tables
from apps.chancepay.peer import Peer
from apps.chancepay.settings import Mode, Settings
from apps.chancepay.wallet import ledger, reports
from sendonce.consumer import Consumers, Incoming
from sendonce.contrib.sqlalchemy import async_engine

MIGRATIONS = Path(__file__).parent / "migrations"
# What receipts and failures are known by: see the view order_failures.
CONSUMER = "wallet"
# Where a connection keeps what is to be reported after its commit.
_REPORTS = "chancepay.reports"

_log = logging.getLogger("chancepay.wallet")


def message_id_of(order: Order) -> str:
    """The uuid and the content: a message that comes again is known by it, and one with other content is not."""
    return ":".join(str(each) for each in (order.uuid, order.kind, order.wallet, order.amount, order.refund_of or "-"))


async def take(connection: AsyncConnection, order: Order, message_id: str, mode: Mode) -> None:
    """Decide an order in the transaction of its receipt. Insufficient balance is a decision, and not an error."""
    taken = await ledger.take(connection, order, message_id)
    if isinstance(taken, ledger.OtherContent):
        _log.warning("order %s refused: its uuid was decided with other content (GET /internal/conflicts)", order.uuid)
        return
    if not taken.is_new:
        return
    if taken.report.status == "FAILED":
        _log.info("order %s failed: %s", order.uuid, taken.report.reason)
    if mode is Mode.SURE:
        await reports.record(connection, order, taken.report)
    else:
        connection.info[_REPORTS].append((order, taken.report))


@asynccontextmanager
async def transaction(engine: AsyncEngine, peer: Peer) -> AsyncIterator[AsyncConnection]:
    """A transaction of the listener; what is to be reported best effort is reported once it is committed."""
    done: list[tuple[Order, Report]] = []
    async with engine.begin() as connection:
        connection.info[_REPORTS] = done
        yield connection
    for order, report in done:
        await reports.try_once(peer, order.uuid, report)


def consumers_of(settings: Settings, engine: AsyncEngine, peer: Peer) -> Consumers:
    """The consumer that takes orders: in mode "chance" what fails is swallowed, in mode "sure" it is tried again."""
    consumers = Consumers()

    @consumers.consumer(
        CONSUMER,
        settings.broker,
        mode="once" if settings.mode is Mode.CHANCE else "retry",
        begin=lambda: transaction(engine, peer),
        id_of=lambda taken: message_id_of(Order.model_validate_json(taken.body)),
    )
    async def take_order(connection: AsyncConnection, message: Incoming) -> None:
        await take(connection, Order.model_validate_json(message.body), message.id, settings.mode)

    return consumers


async def listen(settings: Settings) -> None:
    """Take orders until told to stop."""
    engine = async_engine(settings.database)
    try:
        await check_tables(engine, MIGRATIONS)
        async with Peer(settings.needed_peer()) as peer:
            consumers = consumers_of(settings, engine, peer)
            await sendonce.aconsume(settings.database, consumers, config=settings.config)
    finally:
        await engine.dispose()
