"""The requests' tables, and the view of how far each message is. Made by the migrations."""

from sqlalchemy import BigInteger, Boolean, Column, Integer, MetaData, String, Table, Text, Uuid

from apps.chancepay.columns import Moment, RowNumber

metadata = MetaData()

requests = Table(
    "requests",
    metadata,
    Column("number", RowNumber, primary_key=True),
    Column("uuid", Uuid),
    Column("owner", String(100)),
    Column("kind", String(10)),
    Column("wallet", String(64)),
    Column("amount", BigInteger),
    Column("refund_of", Uuid),
    # Of a payment: how much of it refunds have asked back that have not failed.
    Column("refunded", BigInteger),
    Column("status", String(10)),
    Column("reason", String(40)),
    Column("event_id", BigInteger),
    Column("created_at", Moment),
    Column("settled_at", Moment),
    Column("settled_by", String(100)),
    # What the last reconciliation found about one that is still PENDING.
    Column("finding", String(40)),
    Column("finding_detail", Text),
)

publications = Table(
    "request_publications",
    metadata,
    Column("event_id", BigInteger),
    Column("delivery_id", BigInteger),
    Column("status", String),
    Column("attempts", Integer),
    Column("error", Text),
    Column("in_doubt", Boolean),
    Column("dead_letter_id", BigInteger),
)
