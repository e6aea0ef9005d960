"""Lets what has ended be old: the rules refuse that to everybody, so they are taken away for a moment."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from tests.store.databases import Database

_EVENTS = "update sendonce_events set created_at = created_at - ? where id = ?"
_DELIVERIES = (
    "update sendonce_deliveries set created_at = created_at - ?, updated_at = updated_at - ?,"
    " notified_at = notified_at - ? where event_id = ?"
)
_LETTERS = (
    "update sendonce_dead_letters set created_at = created_at - ?, closed_at = closed_at - ?"
    " where delivery_id in (select id from sendonce_deliveries where event_id = ?)"
)


@contextmanager
def without_rules(database: Database) -> Iterator[Any]:
    """A connection whose changes no trigger sees."""
    with database.connection() as connection:
        if not isinstance(connection, sqlite3.Connection):
            connection.execute("set local session_replication_role = replica")
            yield connection
            return
        rules = connection.execute("select name, sql from sqlite_master where type = 'trigger'").fetchall()
        for name, _ in rules:
            connection.execute(f"drop trigger {name}")
        yield connection
        for _, sql in rules:
            connection.execute(sql)


def backdate(database: Database, by: timedelta, *event_ids: int) -> None:
    """Everything about these events was so much earlier; about all of them when none is named."""
    with without_rules(database) as connection:
        span = by // timedelta(microseconds=1) if isinstance(connection, sqlite3.Connection) else by
        ids = event_ids or [row[0] for row in connection.execute("select id from sendonce_events").fetchall()]
        for each in ids:
            connection.execute(database.spell(_EVENTS), (span, each))
            connection.execute(database.spell(_LETTERS), (span, span, each))
            connection.execute(database.spell(_DELIVERIES), (span, span, span, each))


def begun_earlier(database: Database, by: timedelta) -> None:
    """Every pass of retention that began at the first event did so earlier."""
    with database.connection() as connection:
        span = by // timedelta(microseconds=1) if isinstance(connection, sqlite3.Connection) else by
        connection.execute(database.spell("update sendonce_retention set whole_at = whole_at - ?"), (span,))
