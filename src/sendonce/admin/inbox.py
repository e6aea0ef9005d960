"""The inbox for people: messages that were not handled at once, and what is decided about them.

Only operators see it. A consumer is a part of the service, and so are the messages that it is given; what a tenant may
see of them is for the service to say, in its own tables.
"""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from sendonce.admin.session import Session, sync
from sendonce.domain.deliveries import DeliveryState
from sendonce.errors import NotFound
from sendonce.store.filters import SHOWN_OF_ONE, Page
from sendonce.store.inbox import MessageFilter, MessageRow, ReceiptRow, TryRow
from sendonce.store.records import Acted


class WantedMessages(TypedDict, total=False):
    """What a list of messages is to show: the fields of MessageFilter."""

    consumer: str | None
    message_id: str | None
    source: str | None
    status: DeliveryState | None
    reason: str | None
    dead: bool
    before: int | None
    limit: int


class InboxAdmin:
    """The part of Admin that is about messages which came in."""

    session: Session
    operator: str

    async def amessages(self, **wanted: Unpack[WantedMessages]) -> Page[MessageRow]:
        """List messages that were not handled at once, the newest first. `dead`: what waits for a person."""
        return await (await self.session.store()).messages(MessageFilter(**wanted))

    messages = sync(amessages)

    async def amessage(self, row_id: int) -> MessageRow:
        """Return one generation of a message, by the id of its row."""
        row = await (await self.session.store()).message(row_id)
        if row is None:
            raise NotFound(f"there is no message {row_id}")
        return row

    message = sync(amessage)

    async def atries_of(self, row_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE) -> Page[TryRow]:
        """Return the newest tries of one generation of a message, with numbers below `before`, in order."""
        await self.amessage(row_id)
        return await (await self.session.store()).tries_of(row_id, before=before, limit=limit)

    tries_of = sync(atries_of)

    async def areceipts_of(self, message_id: str, *, after: str = "", limit: int = SHOWN_OF_ONE) -> list[ReceiptRow]:
        """List which consumers have handled the message with this id, by name. `after`: the last name of the list
        before."""
        return await (await self.session.store()).receipts_of(message_id, after=after, limit=limit)

    receipts_of = sync(areceipts_of)

    async def aretry_messages(self, row_ids: Sequence[int], *, reason: str) -> Acted:
        """Have dead messages handled again, as the next generation, all or none; the new ids."""
        return await (await self.session.store()).retry_messages(row_ids, operator=self.operator, reason=reason)

    retry_messages = sync(aretry_messages)

    async def adiscard_messages(self, row_ids: Sequence[int], *, reason: str) -> Acted:
        """Close dead messages for good, and give up those that wait. All or none."""
        return await (await self.session.store()).discard_messages(row_ids, operator=self.operator, reason=reason)

    discard_messages = sync(adiscard_messages)

    async def aerase_message(self, message_id: str, *, reason: str) -> Acted:
        """Take away what is kept of a message's content, and what its handlers have said, at every consumer."""
        return await (await self.session.store()).erase_message(message_id, operator=self.operator, reason=reason)

    erase_message = sync(aerase_message)
