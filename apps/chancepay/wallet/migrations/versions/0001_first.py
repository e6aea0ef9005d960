"""Accounts, transfers that move their balances, decisions, conflicts and API keys."""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
BOOKS = ("book:outside", "book:paid")
MOVE = """
update accounts set balance = balance - new.amount where id = new.debit and balance is not null;
update accounts set balance = balance + new.amount where id = new.credit and balance is not null;
"""
ON_SQLITE = (
    f"create trigger transfers_move_balances after insert on transfers begin {MOVE} end",
    *(
        f"create trigger transfers_cannot_{verb} before {verb} on transfers"
        " begin select raise(abort, 'a transfer is never changed: make another one that puts it right'); end"
        for verb in ("update", "delete")
    ),
)
ON_POSTGRES = (
    "create function transfer_moves_balances() returns trigger language plpgsql as"
    f" $$ begin {MOVE} return null; end $$",
    "create trigger transfers_move_balances after insert on transfers for each row"
    " execute function transfer_moves_balances()",
    "create function transfer_is_frozen() returns trigger language plpgsql as $$ begin"
    " raise exception 'a transfer is never changed: make another one that puts it right'"
    " using errcode = '23514'; end $$",
    "create trigger transfers_are_frozen after update or delete on transfers for each row"
    " execute function transfer_is_frozen()",
)

# The newest delivery of each report.
REPORTS = """
create view report_deliveries as
select d.event_id, d.id as delivery_id, d.status
  from sendonce_deliveries d
 where d.generation = (
   select max(n.generation) from sendonce_deliveries n
    where n.event_id = d.event_id and n.destination_hash = d.destination_hash)
"""
# Orders that the listener is trying again, or has given up; what was handled at once is not here.
FAILURES = """
create view order_failures as
select m.message_id, m.status, m.begun as tries, m.error_code as error
  from sendonce_messages m
 where m.consumer = 'wallet' and m.status in ('PendingRetry', 'DeadLettered')
   and m.generation = (
     select max(n.generation) from sendonce_messages n where n.consumer = m.consumer and n.message_id = m.message_id)
"""


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("balance", sa.BigInteger),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        # On SQLite a sum beyond eight bytes becomes a floating-point number, which is above this.
        sa.CheckConstraint("balance between 0 and 9223372036854775807", name="accounts_balance"),
        sa.CheckConstraint("(balance is null) = (id like 'book:%')", name="accounts_books"),
    )
    op.create_table(
        "transfers",
        sa.Column("number", NUMBER, primary_key=True),
        sa.Column("uuid", sa.Uuid, nullable=False, unique=True),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("debit", sa.String(64), sa.ForeignKey("accounts.id"), nullable=False),
        sa.Column("credit", sa.String(64), sa.ForeignKey("accounts.id"), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind in ('deposit', 'payment', 'refund')", name="transfers_kind"),
        sa.CheckConstraint("debit <> credit", name="transfers_sides"),
        sa.CheckConstraint("amount > 0", name="transfers_amount"),
    )
    op.create_index("transfers_of_debit", "transfers", ["debit", "number"])
    op.create_index("transfers_of_credit", "transfers", ["credit", "number"])
    op.create_table(
        "decisions",
        sa.Column("number", NUMBER, primary_key=True),
        sa.Column("uuid", sa.Uuid, nullable=False, unique=True),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("wallet", sa.String(64), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("refund_of", sa.Uuid),
        sa.Column("refunded", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("reason", sa.String(40)),
        sa.Column("event_id", sa.BigInteger, unique=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind in ('payment', 'refund')", name="decisions_kind"),
        sa.CheckConstraint("amount > 0", name="decisions_amount"),
        sa.CheckConstraint("refunded between 0 and amount", name="decisions_refunded"),
        sa.CheckConstraint("status in ('SUCCEED', 'FAILED')", name="decisions_status"),
        sa.CheckConstraint("(status = 'FAILED') = (reason is not null)", name="decisions_reason"),
    )
    op.create_table(
        "conflicts",
        sa.Column("number", NUMBER, primary_key=True),
        sa.Column("uuid", sa.Uuid, nullable=False),
        sa.Column("message_id", sa.String(500), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("wallet", sa.String(64), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("refund_of", sa.Uuid),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("uuid", "message_id", name="conflicts_once"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("key_hash", sa.String(64), nullable=False, unique=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
    )
    accounts = sa.table("accounts", sa.column("id"), sa.column("balance"), sa.column("opened_at", sa.DateTime(True)))
    op.bulk_insert(accounts, [{"id": book, "balance": None, "opened_at": datetime.now(UTC)} for book in BOOKS])
    op.execute(REPORTS)
    op.execute(FAILURES)
    for statement in ON_SQLITE if op.get_bind().dialect.name == "sqlite" else ON_POSTGRES:
        op.execute(statement)


def downgrade() -> None:
    op.execute("drop view order_failures")
    op.execute("drop view report_deliveries")
    for table in ("transfers", "accounts", "decisions", "conflicts", "api_keys"):
        op.drop_table(table)
    if op.get_bind().dialect.name != "sqlite":
        op.execute("drop function transfer_moves_balances()")
        op.execute("drop function transfer_is_frozen()")
