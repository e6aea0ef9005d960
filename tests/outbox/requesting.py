"""Requests as a caller makes them, and what is there of them."""

from typing import Any

from sendonce import Outbox, Requested
from tests.outbox.databases import Address, recording

OUTBOX = Outbox()
TYPE = "review.finished"
TABLES = ("events", "deliveries", "contents", "requests", "request_keys", "recipients")


def asked(**changed: Any) -> dict[str, Any]:
    """What a request for changelist 7 says, but for what is changed."""
    usual = {"key": "job-1", "subject": "cl-7", "version": 3, "required": ["null:ada", "null:bob"]}
    return usual | changed


def request(address: Address, **changed: Any) -> Requested:
    """Make a request in a transaction of its own."""
    with recording(address) as connection:
        return OUTBOX.request(connection, TYPE, {"review": 7}, **asked(**changed))


def counts(address: Address) -> dict[str, int]:
    return {table: address.count(f"sendonce_{table}") for table in TABLES}
