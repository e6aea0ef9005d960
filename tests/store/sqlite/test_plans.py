"""No query walks a table that grows: each uses an index or a range of ids, with and without statistics."""

import sqlite3
from collections.abc import Iterator

import pytest

from sendonce.sql.queries import parameters
from sendonce.store.sqlite.connection import QUERIES, open_file
from tests.given import given_due_deliveries
from tests.store.databases import SqliteDatabase

GROWING = (
    *("events", "deliveries", "attempts", "dead_letters", "contents", "findings", "operations", "receipts"),
    *("requests", "request_keys", "recipients", "messages", "tries", "evidence"),
)
# These hold only what is open, in doubt or waits for a person, so walking one of them is what it is for.
PARTIAL = {
    "sendonce_deliveries_due",
    "sendonce_deliveries_parked",
    "sendonce_deliveries_in_doubt",
    "sendonce_dead_letters_open",
    "sendonce_dead_letters_waiting",
    "sendonce_messages_due",
    "sendonce_messages_dead",
}
BY_ID = "USING INTEGER PRIMARY KEY (rowid=?)"
MEANT = {
    "claim_doubtful": "SEARCH d USING INDEX sendonce_deliveries_in_doubt (id>?)",
    "doubt": "SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    "policies_in_step": "SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    "completed_window": "SEARCH d USING INTEGER PRIMARY KEY (rowid>?)",
    "claim_due": "SEARCH d USING INDEX sendonce_deliveries_due (next_attempt_at<?)",
    "claim_waiting": "SEARCH d USING INDEX sendonce_deliveries_parked (parked_on=? AND id>?)",
    "front_due": "SEARCH d USING INDEX sendonce_deliveries_due (next_attempt_at<?)",
    "front_waiting": "SEARCH d USING INDEX sendonce_deliveries_parked (parked_on=?)",
    "rooms": "SEARCH d USING COVERING INDEX sendonce_deliveries_parked (parked_on>?)",
    "park": f"SEARCH sendonce_deliveries {BY_ID}",
    "open_attempts": f"SEARCH d {BY_ID}",
    "mark_in_progress": f"SEARCH sendonce_deliveries {BY_ID}",
    "close_attempts": "SEARCH a USING PRIMARY KEY (delivery_id=? AND attempt=?)",
    "move_deliveries": f"SEARCH d {BY_ID}",
    "judge": "SEARCH a USING PRIMARY KEY (delivery_id=? AND attempt=?)",
    "expired_leases": "SEARCH sendonce_leases USING INDEX sendonce_leases_expiry (expires_at<?)",
    "expired_claims": "SEARCH a USING PRIMARY KEY (delivery_id=?)",
    "unpark": "SEARCH sendonce_deliveries USING COVERING INDEX sendonce_deliveries_parked (parked_on=?)",
    "delivery_window": "SEARCH sendonce_deliveries USING INTEGER PRIMARY KEY (rowid<?)",
    "event_window": "SEARCH sendonce_events USING INTEGER PRIMARY KEY (rowid<?)",
    "delivery_rows": f"SEARCH d {BY_ID}",
    "request_window": "SEARCH sendonce_requests USING INTEGER PRIMARY KEY (rowid<?)",
    "request_rows": "SEARCH r USING PRIMARY KEY (request_id=?)",
    "open_dead_letter_window": "SEARCH sendonce_dead_letters USING INDEX sendonce_dead_letters_open (created_at<?)",
    "dead_message_ids": "SCAN sendonce_messages USING INDEX sendonce_messages_dead",
    "message_ids_called": "SEARCH sendonce_messages USING COVERING INDEX sqlite_autoindex_sendonce_messages_1"
    " (message_id=?)",
    "inbox_counts": "SCAN m USING INDEX sendonce_messages_dead",
    "due_messages": "SEARCH sendonce_messages USING COVERING INDEX sendonce_messages_due"
    " (consumer=? AND next_attempt_at<?)",
    "old_contents": "SEARCH sendonce_messages USING INDEX sendonce_messages_content (ended_at<?)",
    "old_messages": "SEARCH sendonce_messages USING INDEX sendonce_messages_age (ended_at<?)",
    "same_evidence": "SEARCH sendonce_evidence USING INDEX sendonce_evidence_of (delivery_id=?)",
}
EXPLAINED = sorted({name for name, text in QUERIES.items() if text} - {"make_results"})


@pytest.fixture(params=["no statistics", "few rows", "many rows"])
def connection(request: pytest.FixtureRequest, database: SqliteDatabase) -> Iterator[sqlite3.Connection]:
    opened = open_file(str(database.path))
    opened.execute(QUERIES["make_results"])
    if request.param != "no statistics":
        given_due_deliveries(database, 3)
        opened.execute("analyze")
    if request.param == "many rows":
        opened.execute("update sqlite_stat1 set stat = '1000000 ' || substr(stat, instr(stat, ' ') + 1)")
        opened.execute("analyze sqlite_schema")
    yield opened
    opened.close()


def plan_of(connection: sqlite3.Connection, sql: str) -> list[str]:
    values = dict.fromkeys(parameters(sql))
    return [row[3] for row in connection.execute(f"explain query plan {sql}", values)]


def aliases_of(sql: str) -> set[str]:
    """What the growing tables are called in this query."""
    words = sql.replace(",", " ").replace("(", " ").replace(")", " ").split()
    tables = {f"sendonce_{name}" for name in GROWING}
    found = set(tables)
    for place, word in enumerate(words):
        if word in tables:
            found |= set(words[place + 1 : place + 3]) - {"as", "where", "set", "indexed", "order", "on"}
    return found


def test_tables_that_grow_are_never_scanned(connection: sqlite3.Connection) -> None:
    scanned = {}
    for name in EXPLAINED:
        lines = [line for line in plan_of(connection, QUERIES[name]) if line.startswith("SCAN")]
        walked = {line.split()[1] for line in lines if line.split()[-1] not in PARTIAL}
        scanned[name] = walked & aliases_of(QUERIES[name])

    assert {name: tables for name, tables in scanned.items() if tables} == {}


def test_index_is_the_one_meant(connection: sqlite3.Connection) -> None:
    plans = {name: plan_of(connection, QUERIES[name]) for name in MEANT}

    assert {name: plan for name, plan in plans.items() if MEANT[name] not in plan} == {}


def test_claim_needs_no_sort(connection: sqlite3.Connection) -> None:
    assert not [line for line in plan_of(connection, QUERIES["claim_due"]) if "TEMP B-TREE" in line]
