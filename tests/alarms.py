"""What tests of alerts share: time that passes for what was told, and dead letters to tell of."""

from datetime import timedelta

from tests.given import given_due_delivery
from tests.store.databases import Database, PostgresDatabase

FINDING = "insert into sendonce_findings (delivery_id, attempt, created_at, kind, outcome) values (?, 1, ?, ?, ?)"


def let_pass(database: Database, by: timedelta) -> None:
    """Let time pass, also for alerts, findings and attempts: on PostgreSQL they are moved back instead."""
    database.advance(by)
    if isinstance(database, PostgresDatabase):
        database.execute("update sendonce_alerts set told_at = told_at - ?, raised_at = raised_at - ?", by, by)
        database.execute("update sendonce_findings set created_at = created_at - ?", by)
        with database.connection() as connection:
            connection.execute("set local session_replication_role = replica")  # what has ended is frozen otherwise
            connection.execute("update sendonce_deliveries set updated_at = updated_at - %s", (by,))
            connection.execute("update sendonce_attempts set created_at = created_at - %s", (by,))


def given_finding(database: Database, kind: str, outcome: str | None = None) -> int:
    """Something that reconciliation found about a delivery; the delivery's id."""
    delivery_id = given_due_delivery(database)
    now: object = database.now() if isinstance(database, PostgresDatabase) else database.microseconds()  # type: ignore[attr-defined]
    database.execute(FINDING, delivery_id, now, kind, outcome)
    return delivery_id
