"""Requests, API keys, and the view of how far each message is."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
# The newest delivery of each request's message: a requeue makes another one.
PUBLICATIONS = """
create view request_publications as
select d.event_id, d.id as delivery_id, d.status, d.attempt_count as attempts, d.final_error_code as error, d.in_doubt,
       z.id as dead_letter_id
  from sendonce_deliveries d
  left join sendonce_dead_letters z on z.delivery_id = d.id and z.closed_at is null
 where d.generation = (
   select max(n.generation) from sendonce_deliveries n
    where n.event_id = d.event_id and n.destination_hash = d.destination_hash)
"""
# What is decided stays decided, and an order stays what it was.
FROZEN = """
    (old.status <> 'PENDING' and (new.status <> old.status or new.settled_at <> old.settled_at))
    or new.uuid <> old.uuid or new.amount <> old.amount or new.wallet <> old.wallet or new.kind <> old.kind
    or new.event_id <> old.event_id
"""
ON_SQLITE = (
    f"create trigger requests_are_decided_once before update on requests when {FROZEN}"
    " begin select raise(abort, 'a request is decided once, and its content never changes'); end",
)
ON_POSTGRES = (
    "create function request_is_frozen() returns trigger language plpgsql as $$ begin"
    " raise exception 'a request is decided once, and its content never changes' using errcode = '23514'; end $$",
    f"create trigger requests_are_decided_once after update on requests for each row when ({FROZEN})"
    " execute function request_is_frozen()",
)


def upgrade() -> None:
    op.create_table(
        "requests",
        sa.Column("number", NUMBER, primary_key=True),
        sa.Column("uuid", sa.Uuid, nullable=False, unique=True),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("wallet", sa.String(64), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("refund_of", sa.Uuid, sa.ForeignKey("requests.uuid")),
        sa.Column("refunded", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("status", sa.String(10), nullable=False, server_default="PENDING"),
        sa.Column("reason", sa.String(40)),
        sa.Column("event_id", sa.BigInteger, nullable=False, unique=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("settled_at", sa.DateTime(timezone=True)),
        sa.Column("settled_by", sa.String(100)),
        sa.Column("finding", sa.String(40)),
        sa.Column("finding_detail", sa.Text),
        sa.CheckConstraint("kind in ('payment', 'refund')", name="requests_kind"),
        sa.CheckConstraint("amount > 0", name="requests_amount"),
        sa.CheckConstraint("(kind = 'refund') = (refund_of is not null)", name="requests_refund"),
        sa.CheckConstraint("refunded between 0 and amount", name="requests_refunded"),
        sa.CheckConstraint("status in ('PENDING', 'SUCCEED', 'FAILED')", name="requests_status"),
        sa.CheckConstraint("(status = 'PENDING') = (settled_at is null)", name="requests_settled"),
        sa.CheckConstraint("(status = 'FAILED') = (reason is not null)", name="requests_reason"),
    )
    op.create_index("requests_of_owner", "requests", ["owner", "number"])
    op.create_index("requests_pending", "requests", ["number"], postgresql_where=sa.text("status = 'PENDING'"),
                    sqlite_where=sa.text("status = 'PENDING'"))  # fmt: skip
    op.create_table(
        "api_keys",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("key_hash", sa.String(64), nullable=False, unique=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
    )
    op.execute(PUBLICATIONS)
    for statement in ON_SQLITE if op.get_bind().dialect.name == "sqlite" else ON_POSTGRES:
        op.execute(statement)


def downgrade() -> None:
    op.execute("drop view request_publications")
    op.drop_table("api_keys")
    op.drop_table("requests")
    if op.get_bind().dialect.name != "sqlite":
        op.execute("drop function request_is_frozen()")
