"""The wallet's tables. Made by the migrations."""

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text, Uuid

from apps.chancepay.columns import Moment, RowNumber

metadata = MetaData()

# A balance changes by a transfer alone (a trigger moves it) and is never below zero (a CHECK). The two books that are
# not ours have none: one row that every payment updates would be a queue.
accounts = Table(
    "accounts",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("balance", BigInteger),
    Column("opened_at", Moment),
)

# Double entry by its shape: what one account is debited, another is credited. Never updated, never deleted.
transfers = Table(
    "transfers",
    metadata,
    Column("number", RowNumber, primary_key=True),
    Column("uuid", Uuid),
    Column("kind", String(10)),
    Column("debit", String(64)),
    Column("credit", String(64)),
    Column("amount", BigInteger),
    Column("created_at", Moment),
)

# What came of each order: one row for each uuid, whatever comes in.
decisions = Table(
    "decisions",
    metadata,
    Column("number", RowNumber, primary_key=True),
    Column("uuid", Uuid),
    Column("kind", String(10)),
    Column("wallet", String(64)),
    Column("amount", BigInteger),
    Column("refund_of", Uuid),
    Column("refunded", BigInteger),
    Column("status", String(10)),
    Column("reason", String(40)),
    # The report's event, where reports go through the outbox.
    Column("event_id", BigInteger),
    Column("created_at", Moment),
)

# Messages with the uuid of a decision and other content: refused, and kept for a person.
conflicts = Table(
    "conflicts",
    metadata,
    Column("number", RowNumber, primary_key=True),
    Column("uuid", Uuid),
    Column("message_id", String(500)),
    Column("kind", String(10)),
    Column("wallet", String(64)),
    Column("amount", BigInteger),
    Column("refund_of", Uuid),
    Column("created_at", Moment),
)

# Views: how far each report is, and what the listener could not do yet or at all.
report_deliveries = Table(
    "report_deliveries",
    metadata,
    Column("event_id", BigInteger),
    Column("delivery_id", BigInteger),
    Column("status", String),
)
failures = Table(
    "order_failures",
    metadata,
    Column("message_id", String),
    Column("status", String),
    Column("tries", Integer),
    Column("error", Text),
)
