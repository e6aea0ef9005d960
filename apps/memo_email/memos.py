"""Memos: written with what is to be sent of them, in one transaction."""

from uuid import UUID, uuid4

from sqlalchemy import Row, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from apps.memo_email.models import Memo, NewMemo
from apps.memo_email.tables import memo_messages, memos
from sendonce import Draft, Email, NotFound, Outbox
from sendonce.contrib.sqlalchemy import ain_transaction

CREATED = "memo.created"

_outbox = Outbox()
_NEXT_NUMBER = text(
    "insert into memo_numbers (prefix, last) values (:prefix, 1)"
    " on conflict (prefix) do update set last = memo_numbers.last + 1 returning last"
)


async def create(engine: AsyncEngine, memo: NewMemo) -> tuple[UUID, bool]:
    """Write the memo and what is to be sent of it: all, or nothing. Its id, and whether it is new: one whose id is
    there already is left as it is."""
    memo_id = memo.id or uuid4()

    async def work(connection: AsyncConnection) -> bool:
        if memo.id is not None and await _row(connection, memo_id) is not None:
            return False
        await write(connection, memo_id, memo)
        return True

    return memo_id, await ain_transaction(engine, work, isolation_level="SERIALIZABLE")


async def write(connection: AsyncConnection, memo_id: UUID, memo: NewMemo) -> None:
    """The same in a transaction that is the caller's. A number is taken only by a memo that is committed: no gaps."""
    number = (await connection.execute(_NEXT_NUMBER, {"prefix": memo.memo_number_prefix})).scalar_one()
    row = memo.model_dump(include={"memo_number_prefix", "department_code", "title", "purpose"})
    await connection.execute(insert(memos).values(id=memo_id, memo_number_sequence=number, **row))
    published = await _outbox.apublish_many(connection, messages_of(memo_id, memo))
    await connection.execute(
        insert(memo_messages),
        [{"id": uuid4(), "memo_id": memo_id, "event_id": each.event_id} for each in published],
    )


def messages_of(memo_id: UUID, memo: NewMemo) -> list[Draft]:
    """An event for each recipient, known by memo, event type and recipient: it cannot be recorded twice."""
    subject, payload = f"Memo {memo.title} Created", {"memo_id": memo_id}
    drafts = [
        Draft(CREATED, payload, key=(memo_id, CREATED, to), to=Email(to, subject=subject, text=memo.email_body))
        for to in dict.fromkeys(memo.recipients)
    ]
    if memo.chat_room is not None:
        to = f"chat:{memo.chat_room}"
        said = {**payload, "title": subject, "text": memo.email_body}
        drafts.append(Draft(CREATED, said, key=(memo_id, CREATED, to), to=to))
    return drafts


async def find(connection: AsyncConnection, memo_id: UUID) -> Memo:
    row = await _row(connection, memo_id)
    if row is None:
        raise NotFound(f"there is no memo {memo_id}")
    return _memo(row)


async def of_prefix(connection: AsyncConnection, prefix: str, below: int, limit: int) -> list[Memo]:
    """Newest first, from the number below this one on."""
    query = (
        select(memos)
        .where(memos.c.memo_number_prefix == prefix, memos.c.memo_number_sequence < below)
        .order_by(memos.c.memo_number_sequence.desc())
        .limit(limit)
    )
    return [_memo(row) for row in await connection.execute(query)]


async def _row(connection: AsyncConnection, memo_id: UUID) -> Row[tuple[object, ...]] | None:
    return (await connection.execute(select(memos).where(memos.c.id == memo_id))).one_or_none()


def _memo(row: Row[tuple[object, ...]]) -> Memo:
    number = f"{row.memo_number_prefix}-{row.memo_number_sequence}"
    return Memo(memo_number=number, **{name: row._mapping[name] for name in Memo.model_fields if name != "memo_number"})
