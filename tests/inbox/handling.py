"""A handler of messages on any kind of connection: its effect is a row of the caller's own table."""

from collections.abc import Sequence

from sendonce import Inbox, Receipt
from sendonce.domain.messages import MessageId
from tests.outbox.callers import Caller
from tests.outbox.databases import Address

INBOX = Inbox()
EFFECT = "insert into memos (id, body) values ({}, 'handled')"


class HandlerFailed(Exception):
    """What the handler raises."""


async def handle(
    caller: Caller, message_id: MessageId, *, fails: bool = False, result: str | None = None, consumer: str = "mailer"
) -> Receipt:
    """Handle the message if it is the first, in the caller's transaction, which is not ended here."""
    if caller.is_async:
        async with INBOX.aonce(caller.connection, consumer, message_id) as receipt:
            await _work(caller, receipt, fails=fails, result=result)
        return receipt
    with INBOX.once(caller.connection, consumer, message_id) as receipt:
        await _work(caller, receipt, fails=fails, result=result)
    return receipt


async def handle_many(caller: Caller, message_ids: Sequence[MessageId]) -> list[Receipt]:
    if caller.is_async:
        async with INBOX.aonce_many(caller.connection, "mailer", message_ids) as receipts:
            for each in receipts:
                await _work(caller, each)
        return receipts
    with INBOX.once_many(caller.connection, "mailer", message_ids) as receipts:
        for each in receipts:
            await _work(caller, each)
    return receipts


async def _work(caller: Caller, receipt: Receipt, *, fails: bool = False, result: str | None = None) -> None:
    if receipt:
        await caller.do(EFFECT.format(f"(select count(*) from memos) + {1000 if fails else 1}"))
        if result is not None:
            receipt.result = result
    if fails:
        raise HandlerFailed


def effects(address: Address) -> int:
    return address.count("memos")


def receipts(address: Address) -> list[tuple[str, str, int | None, str | None]]:
    """Consumer, message, duplicates and result, as another connection sees them."""
    return [
        (consumer, message_id, duplicates, result)
        for consumer, message_id, duplicates, result in address.look(
            "select consumer, message_id, duplicates, result from sendonce_receipts order by 2, 1"
        )
    ]
