"""What was recorded, what the database says became of it, and what really arrived: do the three agree?"""

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sendonce.outbox.drafts import Draft
from sendonce.outbox.outbox import Outbox
from tests.crash.report import Report
from tests.processes import Process, sendonce, until
from tests.receiver import Receiver
from tests.stores.databases import Database, PostgresDatabase, SqliteDatabase

POLICY = {"first_delay": "50ms", "longest_delay": "200ms", "jitter": 0, "timeout": "1s", "doubt_wait": "100ms"}
EXPIRED = ("Unknown", "lease_expired")


def url_of(database: Database) -> str:
    assert isinstance(database, SqliteDatabase | PostgresDatabase)
    return database.url


def publish(database: Database, receiver: Receiver, amount: int, *, first: int = 0, url: str = "") -> None:
    """Record events, each with a destination of its own at the receiver, in one transaction.

    `url` is another address of the receiver.
    """
    with database.connection() as connection:
        drafts = [
            Draft("memo.created", {"memo": number}, key=f"memo-{number}", to=f"{url or receiver.url}/{number}")
            for number in range(first, first + amount)
        ]
        Outbox().publish_many(connection, drafts)


def worker(
    database: Database, *options: str, lease: str = "2s", environment: Mapping[str, str] | None = None
) -> Process:
    """A real worker process with short leases and short delays."""
    return sendonce(
        "worker", "--lease", lease, "--poll", "100ms", "--policy", json.dumps(POLICY), *options,
        database=url_of(database), environment=environment,
    )  # fmt: skip


def completed(database: Database) -> int:
    return int(database.one("select count(*) from sendonce_deliveries where status = 'Completed'"))


def all_completed(database: Database, amount: int, seconds: float = 40) -> float:
    """Return when so many are completed, with how long that took."""
    begun = time.monotonic()
    until(lambda: completed(database) >= amount, f"{amount} completed", seconds)
    return time.monotonic() - begun


def in_flight(database: Database) -> set[int]:
    """The deliveries that the database takes for being sent now."""
    return {row[0] for row in database.execute("select delivery_id from sendonce_attempts where status = 'Leased'")}


def settle_accounts(
    database: Database, receiver: Receiver, amount: int, lost: set[int] | None = None, *,
    title: str = "", took: float | None = None,
) -> Report:  # fmt: skip
    """The report of a run, printed and checked: nothing was lost, and there is a reason for what was repeated.

    `lost` names what was in flight at the kills, where the test knows it: nothing else may have been in doubt then.
    `took` is the time to recover.
    """
    deliveries = {row["id"]: row for row in database.rows("deliveries")}
    attempts: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in database.rows("attempts"):
        attempts[row["delivery_id"]].append(row)
    times = receiver.times()
    report = Report(title=title or url_of(database).partition(":")[0], recovery_seconds=took, published=len(deliveries))
    unsure = {id: _check_history(delivery, attempts[id]) for id, delivery in deliveries.items()}
    for id, delivery in deliveries.items():
        path = "/" + delivery["destination"].rpartition("/")[2]
        report.delivered += path in receiver.answered
        report.lost += path not in receiver.answered
        report.in_doubt += bool(unsure[id])
        repeats = max(0, times[path] - 1)
        report.repeated.update(unsure[id][:repeats])
        report.doubled["for no reason"] += max(0, repeats - len(unsure[id]))
    report.strange["more than one token"] += sum(len(tokens) > 1 for tokens in receiver.tokens().values())
    if lost is not None:
        report.strange["in doubt, and its worker lived"] += len({id for id, codes in unsure.items() if codes} - lost)
    print(f"\n{report}")
    report.check()
    assert report.published == amount
    return report


def _check_history(delivery: dict[str, Any], attempts: list[dict[str, Any]]) -> list[str]:
    """Why its attempts, but for the last, are of unknown outcome."""
    assert delivery["status"] == "Completed"
    assert [row["attempt"] for row in attempts] == list(range(1, len(attempts) + 1))
    assert delivery["attempt_count"] == len(attempts)
    outcomes = [(row["outcome"], row["error_code"]) for row in attempts]
    assert outcomes[-1] == ("Delivered", None)
    assert {outcome for outcome, _ in outcomes[:-1]} <= {"Unknown", "Deferred", "Failed"}, outcomes
    return [code for outcome, code in outcomes if outcome == "Unknown"]
