"""What was recorded, what the database says became of it, and what really arrived: do the three agree?"""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sendonce.outbox.drafts import Draft
from sendonce.outbox.outbox import Outbox
from tests.processes import Process, sendonce, until
from tests.receiver import Receiver
from tests.stores.databases import Database, PostgresDatabase, SqliteDatabase

POLICY = {"first_delay": "50ms", "longest_delay": "200ms", "jitter": 0, "timeout": "1s", "doubt_wait": "100ms"}
EXPIRED = ("Unknown", "lease_expired")


def url_of(database: Database) -> str:
    assert isinstance(database, SqliteDatabase | PostgresDatabase)
    return database.url


def publish(database: Database, receiver: Receiver, amount: int) -> None:
    """Record events, each with a destination of its own at the receiver, in one transaction."""
    with database.connection() as connection:
        drafts = [
            Draft("memo.created", {"memo": number}, key=f"memo-{number}", to=f"{receiver.url}/{number}")
            for number in range(amount)
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


def all_completed(database: Database, amount: int, seconds: float = 40) -> None:
    until(lambda: completed(database) >= amount, f"{amount} completed", seconds)


def in_flight(database: Database) -> set[int]:
    """The deliveries that the database takes for being sent now."""
    return {row[0] for row in database.execute("select delivery_id from sendonce_attempts where status = 'Leased'")}


@dataclass
class Account:
    """What `settle_accounts` has found. Printed, it is the report."""

    published: int
    delivered: int
    in_flight_at_kills: int
    expired: set[int] = field(default_factory=set)
    repeated: dict[int, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"published {self.published}, delivered {self.delivered},"
            f" repeated {sum(self.repeated.values())} of {len(self.repeated)} deliveries,"
            f" in flight at kills {self.in_flight_at_kills}, closed as Unknown {len(self.expired)}"
        )


def settle_accounts(database: Database, receiver: Receiver, amount: int, lost: set[int] | None = None) -> Account:
    """Assert that nothing was lost, and that whatever was repeated had been in flight when its worker died.

    `lost` names what was in flight at the kills, where the test knows it.
    """
    deliveries = {row["id"]: row for row in database.rows("deliveries")}
    attempts: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in database.rows("attempts"):
        attempts[row["delivery_id"]].append(row)
    times = receiver.times()
    account = Account(len(deliveries), 0, len(lost or ()))
    for id, delivery in deliveries.items():
        path = "/" + delivery["destination"].rpartition("/")[2]
        account.delivered += path in receiver.answered
        expired = _check_history(delivery, attempts[id])
        if expired:
            account.expired.add(id)
        if times[path] > 1:
            account.repeated[id] = times[path] - 1
        assert times[path] <= 1 + expired, f"delivery {id} arrived {times[path]} times, {expired} attempts had expired"
    assert account.published == account.delivered == amount
    assert all(len(tokens) == 1 for tokens in receiver.tokens().values())
    if lost is not None:
        assert account.expired <= lost
    return account


def _check_history(delivery: dict[str, Any], attempts: list[dict[str, Any]]) -> int:
    """How many of its attempts were closed because their worker died. All others but the last are not failures."""
    assert delivery["status"] == "Completed"
    assert [row["attempt"] for row in attempts] == list(range(1, len(attempts) + 1))
    assert delivery["attempt_count"] == len(attempts)
    outcomes = [(row["outcome"], row["error_code"]) for row in attempts]
    assert outcomes[-1] == ("Delivered", None)
    assert all(outcome == EXPIRED or outcome[0] == "Deferred" for outcome in outcomes[:-1]), outcomes
    return outcomes.count(EXPIRED)
