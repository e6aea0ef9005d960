"""The application's tables, and its views over what sendonce has recorded. Made by the migrations."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, DateTime, Dialect, Integer, MetaData, String, Table, Text, Uuid
from sqlalchemy.types import TypeDecorator

MIGRATIONS = Path(__file__).parent / "migrations"


class Moment(TypeDecorator[datetime]):
    """A time in UTC; SQLite, which has no type for it, gives it without its zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def _state() -> list[Column[Any]]:
    """What both views say of a message."""
    return [
        Column("id", Uuid),
        Column("memo_id", Uuid),
        Column("event_type", String),
        Column("payload", JSON),
        Column("notification_type", String),
        Column("status", String),
        Column("retry_count", Integer),
        Column("last_attempt_at", Moment),
        Column("sent_at", Moment),
        Column("error_message", Text),
        Column("idempotency_key", String),
        Column("meta_created_at", Moment),
        Column("meta_updated_at", Moment),
    ]


metadata = MetaData()

memos = Table(
    "memos",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("memo_number_prefix", String(50)),
    Column("memo_number_sequence", Integer),
    Column("department_code", String(50)),
    Column("title", String(500)),
    Column("purpose", Text),
    Column("created_at", Moment),
    Column("updated_at", Moment),
)

# What was recorded for a memo: one event for each recipient.
memo_messages = Table(
    "memo_messages",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("memo_id", Uuid),
    Column("event_id", BigInteger),
)

email_outbox = Table("email_outbox", metadata, *_state(), Column("recipient_email", String))

outbox_history = Table(
    "outbox_history",
    metadata,
    *_state(),
    Column("delivery_id", BigInteger),
    Column("channel", String),
    Column("recipient", String),
)
