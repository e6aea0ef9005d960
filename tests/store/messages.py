"""Messages, tries and receipts of consumers, as rows: what a consumer's runner would have written."""

from typing import Any

from tests.store.databases import Database, PostgresDatabase

OPEN = ("Pending", "PendingRetry", "InProgress")


def given_message(
    database: Database,
    message_id: str | None = "m-1",
    *,
    status: str = "DeadLettered",
    reason: str | None = None,
    consumer: str = "wallet",
    age: int = 0,
    **columns: Any,
) -> int:
    """A message at a consumer that came so many seconds ago; its row's id."""
    postgres = isinstance(database, PostgresDatabase)
    at = f"now() - interval '{age} seconds'" if postgres else f"{_now(database)} - {age * 1_000_000}"
    is_open = status in OPEN
    values: dict[str, Any] = {
        "consumer": consumer,
        "message_id": message_id,
        "status": status,
        "reason": reason or ("exhausted" if status == "DeadLettered" else None),
        "source": "amqp:shop/payments",
        "begun": 1,
        "finished": 0 if status == "InProgress" else 1,
        "error_code": "ValueError",
        "error_message": "wallet.py line 7",
        "headers": '{"a": "b"}',
        "body": b"12",
        **columns,
    }
    times = ["created_at", "updated_at", "seen_at", "next_attempt_at" if is_open else "ended_at"]
    names = ", ".join([*values, *times])
    marks = ", ".join([*["?"] * len(values), *[at] * len(times)])
    [[row_id]] = database.execute(
        f"insert into sendonce_messages ({names}) values ({marks}) returning id", *values.values()
    )
    database.execute(
        f"insert into sendonce_tries (message, number, begun_at, finished_at, outcome, error_message)"
        f" values (?, 1, {at}, {at}, 'Failed', 'wallet.py line 7')",
        row_id,
    )
    return int(row_id)


def given_receipt(
    database: Database, message_id: str, *, consumer: str = "wallet", age: int = 0, seen: int | None = None
) -> None:
    """A receipt so many seconds old, whose message last came again so many seconds ago."""
    postgres = isinstance(database, PostgresDatabase)

    def before(seconds: int) -> str:
        return f"now() - interval '{seconds} seconds'" if postgres else f"{_now(database)} - {seconds * 1_000_000}"

    database.execute(
        "insert into sendonce_receipts (consumer, message_id, received_at, handled_at, seen_at, duplicates, result)"
        f" values (?, ?, {before(age)}, {before(age)}, {'null' if seen is None else before(seen)}, ?, 'done')",
        consumer,
        message_id,
        None if seen is None else 1,
    )


def _now(database: Database) -> int:
    return int(database.one("select cast((julianday('now') - 2440587.5) * 86400000000 as integer)"))
