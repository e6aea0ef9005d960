"""What a review says, and the views over the tables of sendonce."""

import re
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

VIEWS = ("review_log", "review_notifications", "review_jobs")
_FILE = Path(__file__).parent.parent / "views.sql"
_MOMENT = re.compile(r"moment\((\S+)\)")
_WRITTEN_OUT = r"strftime('%Y-%m-%dT%H:%M:%fZ', \1 / 1000000.0, 'unixepoch')"


def upgrade() -> None:
    op.create_table(
        "reviews",
        sa.Column("changelist_id", sa.Text, primary_key=True),
        sa.Column("review_version", sa.BigInteger, primary_key=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
    )
    moment = _WRITTEN_OUT if op.get_bind().dialect.name == "sqlite" else r"\1"
    for statement in _MOMENT.sub(moment, _FILE.read_text("utf-8")).split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    for view in VIEWS:
        op.execute(f"drop view {view}")
    op.drop_table("reviews")
