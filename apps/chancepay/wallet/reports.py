"""Reports to the requests' side: through the wallet's outbox (mode "sure"), or once and best effort (mode "chance")."""

import logging
from uuid import UUID

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from apps.chancepay.contract import Order, Report
from apps.chancepay.peer import Peer, PeerFailed
from apps.chancepay.wallet.tables import decisions
from sendonce import Outbox
from sendonce.channels import Channels, Deferred, Delivered, Failed, Fault, Message, Outcome, Refused, Unknown

TYPE = "chancepay.report"

_log = logging.getLogger("chancepay.wallet")
_outbox = Outbox()


async def record(connection: AsyncConnection, order: Order, report: Report) -> None:
    """Record a report in the transaction that has decided the order: it goes out once that is committed."""
    published = await _outbox.apublish(
        connection, TYPE, report.model_dump(mode="json"), key=str(order.uuid), to=f"report:{order.uuid}"
    )
    written = update(decisions).where(decisions.c.uuid == order.uuid).values(event_id=published.event_id)
    await connection.execute(written)


async def try_once(peer: Peer, uuid: UUID, report: Report) -> None:
    """The document's way: one try after the commit. A report that fails is logged, and undoes nothing."""
    try:
        await peer.report(uuid, report)
    except PeerFailed as error:
        _log.warning("report about %s lost: %s", uuid, error)


def channels_to(peer: Peer) -> Channels:
    """The channel that takes recorded reports there. A repeat changes nothing, so doubt is settled by sending again."""
    channels = Channels()

    @channels.channel("report", if_unsure="resend")
    async def send_report(message: Message, *, timeout: float) -> Outcome:
        uuid = UUID(message.address.partition(":")[2])
        try:
            await peer.report(uuid, Report.model_validate_json(message.body), timeout)
        except PeerFailed as error:
            _log.warning("report about %s, attempt %d: %s", uuid, message.attempt, error)
            return outcome_of(error)
        return Delivered()

    return channels


def outcome_of(error: PeerFailed) -> Outcome:
    """What a failed report means for the next try."""
    if not error.is_sent:
        return Failed("unreachable", fault=Fault.CHANNEL)
    if error.status is None:
        return Unknown("no_answer", fault=Fault.CHANNEL)
    code = f"http_{error.status}"
    if error.status in (401, 403):
        return Deferred("our_key")
    if error.status in (429, 503):
        return Failed(code, fault=Fault.CHANNEL)
    return Unknown(code, fault=Fault.CHANNEL) if error.status >= 500 else Refused(code, fault=Fault.RECIPIENT)
