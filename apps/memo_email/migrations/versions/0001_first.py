"""Memos, their numbers, what was recorded for each, and the two views over what became of it."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    op.create_table(
        "memo_numbers",
        sa.Column("prefix", sa.String(50), primary_key=True),
        sa.Column("last", sa.Integer, nullable=False),
    )
    op.create_table(
        "memos",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("memo_number_prefix", sa.String(50), nullable=False),
        sa.Column("memo_number_sequence", sa.Integer, nullable=False),
        sa.Column("department_code", sa.String(50), nullable=False),
        sa.Column("title", sa.String(500), nullable=False),
        sa.Column("purpose", sa.Text),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.current_timestamp()),
        sa.Column("updated_at", sa.DateTime(timezone=True)),
        sa.UniqueConstraint("memo_number_prefix", "memo_number_sequence", name="ux_memos_number"),
    )
    op.create_table(
        "memo_messages",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("memo_id", sa.Uuid, sa.ForeignKey("memos.id"), nullable=False),
        sa.Column("event_id", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("event_id", name="ux_memo_messages_event_id"),
    )
    op.create_index("ix_memo_messages_memo_id", "memo_messages", ["memo_id"])
    views = (SQL / f"0001_{op.get_bind().dialect.name}.sql").read_text()
    for statement in views.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    op.execute("drop view email_outbox")
    op.execute("drop view outbox_history")
    for table in ("memo_messages", "memos", "memo_numbers"):
        op.drop_table(table)
