"""What became of what was recorded for a memo: read from the views, never stored twice."""

from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, select
from sqlalchemy.ext.asyncio import AsyncConnection

from apps.memo_email.models import Mail, MailWithHistory, Message
from apps.memo_email.tables import email_outbox, outbox_history
from sendonce import NotFound


async def of_memo(connection: AsyncConnection, memo_id: UUID) -> list[Message]:
    """Every message of a memo as it is now."""
    query = select(outbox_history).where(outbox_history.c.memo_id == memo_id).order_by(outbox_history.c.delivery_id)
    newest = {row["id"]: row for row in (await connection.execute(query)).mappings()}
    return [Message(**{name: row[name] for name in Message.model_fields}) for row in newest.values()]


async def of_status(connection: AsyncConnection, status: str, limit: int) -> list[Mail]:
    """The oldest mails that are so now."""
    query = (
        select(email_outbox, email_outbox.c.recipient_email.label("recipient"))
        .where(email_outbox.c.status == status)
        .order_by(email_outbox.c.meta_created_at, email_outbox.c.id)
        .limit(limit)
    )
    return [Mail(**_mail(row)) for row in (await connection.execute(query)).mappings()]


async def story(connection: AsyncConnection, mail_id: UUID) -> tuple[MailWithHistory, int]:
    """A mail with its history, and the delivery that an operator acts on."""
    query = (
        select(outbox_history)
        .where(outbox_history.c.id == mail_id, outbox_history.c.channel == "mailto")
        .order_by(outbox_history.c.delivery_id)
    )
    rows = (await connection.execute(query)).mappings().all()
    if not rows:
        raise NotFound(f"there is no mail {mail_id}")
    *before, now = rows
    history = [Mail(**_mail(row)) for row in before]
    return MailWithHistory(**_mail(now), history=history), now["delivery_id"]


def _mail(row: RowMapping) -> dict[str, Any]:
    content = row["payload"] or {}
    found = {"channel": "mailto", "subject": content.get("subject"), "body": content.get("body"), **row}
    return {name: found[name] for name in Mail.model_fields}
