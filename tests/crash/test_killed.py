"""Two workers at a time, one of them killed again and again at random: nothing lost, and each repeat has its reason."""

import os
import random
import time
from contextlib import ExitStack

import pytest

from tests.crash.accounts import (
    all_completed,
    end_leases,
    id_of,
    in_flight,
    publish,
    settle_accounts,
    url_of,
    worker,
)
from tests.crash.report import Report
from tests.guarantees.figures import record
from tests.processes import until
from tests.receiver import Receiver
from tests.store.databases import Database

SLOTS = 25
EACH = 200
# In a slot, or sent and not settled yet: of both workers.
MOST_IN_FLIGHT = 2 * 5 * SLOTS


def kill_at_random(database: Database, receiver: Receiver, rng: random.Random, kills: int) -> Report:
    """Publish some more and kill one of two workers in the middle of it, so often."""
    receiver.delay = 0.1
    lost: set[int] = set()
    with ExitStack() as stack:
        crew = [stack.enter_context(worker(database, "--concurrency", str(SLOTS))) for _ in range(2)]
        for number in range(kills):
            which = rng.randrange(2)
            victim = id_of(crew[which])
            wanted = len(receiver.arrivals) + rng.randint(SLOTS, EACH * 2 // 3)
            publish(database, receiver, EACH, first=number * EACH)
            until(lambda wanted=wanted: len(receiver.arrivals) >= wanted, f"{wanted} arrivals")  # type: ignore[misc]
            crew[which].kill()
            now = in_flight(database)
            assert len(now - lost) <= MOST_IN_FLIGHT
            lost |= now
            end_leases(database, victim)
            crew[which] = stack.enter_context(worker(database, "--concurrency", str(SLOTS)))
        took = all_completed(database, kills * EACH)
    title = f"{url_of(database).partition(':')[0]}: one of two workers killed {kills} times"
    return settle_accounts(database, receiver, kills * EACH, lost, title=title, took=took)


@pytest.mark.sqlite_later
@pytest.mark.slow
def test_workers_killed_at_random_lose_nothing_and_repeat_only_what_was_in_flight(
    database: Database, receiver: Receiver
) -> None:
    report = kill_at_random(database, receiver, random.Random(7), kills=5)

    assert report.in_doubt
    assert report.repeated.total() == len(receiver.arrivals) - report.published
    assert database.one("select count(*) from sendonce_dead_letters") == 0


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_workers_killed_two_hundred_times_lose_nothing(database: Database, receiver: Receiver) -> None:
    kills, begun = int(os.environ.get("CRASHES", "200")), time.monotonic()

    report = kill_at_random(database, receiver, random.Random(), kills)

    kind = "postgres" if url_of(database).startswith("postgres") else "sqlite"
    figures: dict[str, int | float | str | None] = {
        "database": kind,
        "worker_kills": kills,
        "events": report.published,
        "requests": len(receiver.arrivals),
        "lost": report.lost,
        "doubled": report.doubled.total(),
        "repeated": report.repeated.total(),
        "in_doubt": report.in_doubt,
        "recovery_seconds": round(report.recovery_seconds or 0, 1),
        "took_seconds": round(time.monotonic() - begun, 1),
    }
    record(f"crashes-{kind}", figures)
