"""One inconsistency for each check, made past the rules; each is one that only this check is to find."""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

from tests.store.aging import without_rules
from tests.store.databases import Database, PostgresDatabase

HOUR = timedelta(hours=1)
_NEW_DELIVERY = (
    "insert into sendonce_deliveries (event_id, created_at, updated_at, next_attempt_at, destination, destination_hash,"
    " generation) select event_id, created_at, updated_at, next_attempt_at, destination, destination_hash, 5"
    " from sendonce_deliveries where id = :due"
)
# What is done past the rules, and which delivery or other row is then found. `:name` is a delivery of the scene.
PLANTS: dict[str, tuple[list[str], str]] = {
    "routed": (
        ["delete from sendonce_deliveries where id = :due"],
        "select max(id) from sendonce_events",
    ),
    "contents": (
        [
            "insert into sendonce_contents (event_id, destination_hash, content)"
            " select (select event_id from sendonce_deliveries where id = :sent), destination_hash, '{}'"
            " from sendonce_contents limit 1"
        ],
        "select event_id from sendonce_deliveries where id = :sent",
    ),
    "payloads": (
        ["update sendonce_events set payload = null where id = (select max(id) from sendonce_events)"],
        "select max(id) from sendonce_events",
    ),
    "digests": (
        ["update sendonce_events set payload = '[7]' where id = (select max(id) from sendonce_events)"],
        "select max(id) from sendonce_events",
    ),
    "events": (
        ["delete from sendonce_events where id = (select event_id from sendonce_deliveries where id = :sent)"],
        ":sent",
    ),
    "content": (["delete from sendonce_contents"], ":mail"),
    "history": (
        [
            "insert into sendonce_attempts (delivery_id, lease_id, created_at, attempt, status)"
            " select 999999, lease_id, created_at, 1, 'Leased' from sendonce_attempts limit 1"
        ],
        "999999",
    ),
    "attempts": (["update sendonce_deliveries set attempt_count = attempt_count + 1 where id = :sent"], ":sent"),
    "leased": (["delete from sendonce_leases"], ":flying"),
    "waiting": (["update sendonce_deliveries set status = 'PendingRetry' where id = :due"], ":due"),
    "parked": (["update sendonce_deliveries set parked_on = 'stop:tenant:acme' where id = :parked"], ":parked"),
    "expired": (
        [
            "update sendonce_deliveries set expires_at = created_at, next_attempt_at = next_attempt_at + {hours}"
            " where id = :retrying"
        ],
        ":retrying",
    ),
    "generations": ([_NEW_DELIVERY], "select max(id) from sendonce_deliveries"),
    "dead_letters": (["delete from sendonce_dead_letters where delivery_id = :given_up"], ":given_up"),
    "decided": (
        [
            "update sendonce_dead_letters set closed_at = created_at, closed_as = 'requeued'"
            " where delivery_id = :given_up"
        ],
        ":given_up",
    ),
    "corrections": (
        ["insert into sendonce_corrections (delivery_id, replaces, operation_id) values (:sent, :given_up, 1)"],
        ":sent",
    ),
    "outcomes": (
        ["update sendonce_attempts set outcome = 'Refused', status = 'Failed' where delivery_id = :sent"],
        ":sent",
    ),
    "ended": (["update sendonce_deliveries set updated_at = updated_at - {hours} where id = :sent"], ":sent"),
    "doubt": (["update sendonce_deliveries set in_doubt = not in_doubt where id = :in_doubt"], ":in_doubt"),
    "ids": (["update sendonce_deliveries set notification_id = 'another' where id = :sent"], ":sent"),
    "tokens": (
        [
            "update sendonce_deliveries set destination = 'null:a' where id = :other",
            "update sendonce_events set payload = null, content_gone_at = created_at"
            " where id = (select event_id from sendonce_deliveries where id = :other)",
        ],
        ":other",
    ),
    "lease_ends": (["update sendonce_leases set expires_at = expires_at + {hours}"], "select id from sendonce_leases"),
    "lease_expiry": (
        [
            "update sendonce_leases set expires_at = expires_at - {hours}",
            "update sendonce_workers set started_at = started_at - {hours}, seen_at = seen_at + {hours}",
        ],
        "select id from sendonce_leases",
    ),
    "lease_use": (
        [
            "insert into sendonce_leases (id, worker_id, created_at, expires_at, deliveries)"
            " select 777777, worker_id, created_at - {hours}, expires_at + {hours} / 6, '{none}' from sendonce_leases"
        ],
        "777777",
    ),
    "requests": (
        [
            "update sendonce_recipients set destination_hash ="
            " (select destination_hash from sendonce_deliveries where id = :mail)"
        ],
        "select id from sendonce_requests",
    ),
    "request_parts": (
        [
            "insert into sendonce_request_keys (request_id, created_at, type, key)"
            " select 888888, created_at, type, 'another' from sendonce_request_keys"
        ],
        "888888",
    ),
    "operations": (
        [
            "update sendonce_operations set state = 'running', finished_at = null, updated_at = updated_at - {hours}"
            " where id = :operation"
        ],
        ":operation",
    ),
    "handled": (["delete from sendonce_receipts"], ":handled"),
    "message_generations": (["delete from sendonce_messages where generation = 1"], ":tried_again"),
    "tries": (["delete from sendonce_messages where id = :handled"], ":handled"),
}


# Keys that stand in the way where no trigger does: they are taken away first.
KEYS = {"tokens": "sendonce_deliveries_one_each"}


def plant(database: Database, ids: dict[str, int], name: str) -> Any:
    """Make the inconsistency; the id that is to be found."""
    statements, answer = PLANTS[name]
    if name in KEYS and not isinstance(database, PostgresDatabase):
        database.execute(f"drop index {KEYS[name]}")
    do(database, ids, statements)
    return id_of(database, ids, answer)


def do(database: Database, ids: dict[str, int], statements: Sequence[str], on: Any = None) -> None:
    """Make these changes past the rules, on a connection of their own unless one is given; none may change nothing."""
    with nullcontext(on) if on is not None else without_rules(database) as connection:
        for statement in statements:
            assert connection.execute(_spelled(database, ids, statement)).rowcount > 0, statement


def id_of(database: Database, ids: dict[str, int], answer: str) -> int:
    """A number, the id of a delivery of the scene, or what a query says."""
    text = _spelled(database, ids, answer)
    return int(text) if text.isdecimal() else int(database.one(text))


def _spelled(database: Database, ids: dict[str, int], text: str) -> str:
    on_postgres = isinstance(database, PostgresDatabase)
    text = text.replace("{hours}", "interval '3 hours'" if on_postgres else str(3 * HOUR // timedelta(microseconds=1)))
    text = text.replace("{none}", "{[}{]}")
    text = text.replace("{[}", "{" if on_postgres else "[").replace("{]}", "}" if on_postgres else "]")
    for name in sorted(ids, key=len, reverse=True):
        text = text.replace(f":{name.replace(' ', '_')}", str(ids[name]))
    return text
