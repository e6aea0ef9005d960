"""API keys, and the deliveries as the document's table of sagas shows them."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# One row for each generation: a requeue is a saga of its own, and the old one stays as it is. Times on SQLite are whole
# microseconds, shown as text in UTC.
SAGAS = """
create view webhook_delivery_sagas as
select id, event_id, subscription_id, status, attempt_count, next_attempt_at, final_error_code, created_at, updated_at
  from sendonce_deliveries
 where subscription_id is not null
"""
SAGAS_ON_SQLITE = """
create view webhook_delivery_sagas as
select id, event_id, subscription_id, status, attempt_count,
       strftime('%Y-%m-%d %H:%M:%fZ', next_attempt_at / 1e6, 'unixepoch') as next_attempt_at,
       final_error_code,
       strftime('%Y-%m-%d %H:%M:%fZ', created_at / 1e6, 'unixepoch') as created_at,
       strftime('%Y-%m-%d %H:%M:%fZ', updated_at / 1e6, 'unixepoch') as updated_at
  from sendonce_deliveries
 where subscription_id is not null
"""


def upgrade() -> None:
    op.create_table(
        "webhooks_keys",
        sa.Column("key_hash", sa.String(64), primary_key=True),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.execute(SAGAS_ON_SQLITE if op.get_bind().dialect.name == "sqlite" else SAGAS)


def downgrade() -> None:
    op.execute("drop view webhook_delivery_sagas")
    op.drop_table("webhooks_keys")
