"""What was recorded, what the database says became of it, and what really arrived: do the three agree?"""

import json
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypedDict

from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from tests.crash.report import Report
from tests.processes import SECONDS, Process, sendonce, until
from tests.receiver import Receiver
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase


class Limits(TypedDict):
    lease: str
    timeout: str


POLICY = {"first_delay": "50ms", "longest_delay": "200ms", "jitter": 0, "doubt_wait": "100ms"}
# For who must not time out or lose a lease, however slow the machine is, and however long it stands still.
PATIENT = Limits(lease="120s", timeout="60s")
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
    database: Database, *options: str, lease: str = PATIENT["lease"], timeout: str = PATIENT["timeout"],
    environment: Mapping[str, str] | None = None,
) -> Process:  # fmt: skip
    """A real worker process with short delays."""
    policy = json.dumps({**POLICY, "timeout": timeout})
    return sendonce(
        "worker", "--lease", lease, "--poll", "100ms", "--policy", policy, *options,
        database=url_of(database), environment=environment,
    )  # fmt: skip


def id_of(worker: Process) -> int:
    """The number that a worker has given itself, when it has begun."""
    worker.says("slots; channels")
    found = re.search(r"worker (\d+) \(", worker.said)
    assert found is not None, worker.said
    return int(found[1])


def end_leases(database: Database, worker_id: int | None = None) -> None:
    """Let the time be over that every lease has, or those of one worker: who had them is dead or frozen."""
    ended = 0 if isinstance(database, SqliteDatabase) else database.now() - timedelta(seconds=1)
    whose, values = ("", ()) if worker_id is None else (" where worker_id = ?", (worker_id,))
    database.execute(f"update sendonce_leases set expires_at = ?{whose}", ended, *values)


def end_doubt_waits(database: Database) -> None:
    """Let the time be over for which what is in doubt must wait: whoever may have sent it is dead, or has ended."""
    waiting = "status = 'PendingRetry' and not_before is not null"
    if database.one(f"select count(*) from sendonce_deliveries where {waiting}"):
        hour = "3600000000" if isinstance(database, SqliteDatabase) else "interval '1 hour'"
        earlier = ", ".join(f"{column} = {column} - {hour}" for column in ("not_before", "next_attempt_at"))
        database.execute(f"update sendonce_deliveries set {earlier} where {waiting}")


def completed(database: Database) -> int:
    return int(database.one("select count(*) from sendonce_deliveries where status = 'Completed'"))


def all_completed(database: Database, amount: int) -> float:
    """Return when so many are completed, with how long that took; what is in doubt need not wait for longer."""
    begun = time.monotonic()

    def are_completed() -> bool:
        if (there := completed(database)) < amount:
            end_doubt_waits(database)
        return there >= amount

    until(are_completed, f"{amount} completed", 2 * SECONDS)
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
