"""SIGKILL at every named point; another worker finishes, and the accounts agree."""

import asyncio
import re
import signal
from datetime import timedelta

import pytest

from sendonce.checkpoints import CONSUMING, MIGRATING, POINTS
from sendonce.store.ports import Store
from tests.conformance.test_crashes import AROUND_A_QUESTION
from tests.crash import killing
from tests.crash.accounts import Limits, all_completed, end_leases, in_flight, publish, settle_accounts, worker
from tests.processes import ROOT
from tests.receiver import Receiver
from tests.store.databases import Database

AMOUNT = 40
# It renews its leases after a quarter of their time, and loses none before it dies.
VICTIM = Limits(lease="12s", timeout="9s")
BEFORE_THE_WIRE = {"worker.after_claim"}
PASSES = {"sender.before_send": 7, "sender.after_send": 7, "keeper.before_expire": 4}


async def claimed_by_nobody(database: Database) -> None:
    """Something for the keeper to take over: the claim of a worker that is gone."""
    store: Store = await database.open()
    await store.start(99, 3, timedelta(milliseconds=1))
    await database.close()


# What is reached only where the receiver can be asked: tests/conformance has such a receiver.
ASKING = set(AROUND_A_QUESTION)


@pytest.mark.sqlite_later
@pytest.mark.parametrize("point", [point for point in POINTS if point not in ASKING])
def test_worker_that_dies_here_loses_nothing(database: Database, receiver: Receiver, point: str) -> None:
    publish(database, receiver, AMOUNT)
    asyncio.run(claimed_by_nobody(database))
    orphans = in_flight(database)
    receiver.delay = 0.25
    receiver.most = AMOUNT * 3 // 4  # so that there is something left to die for

    environment = {killing.POINT: point, killing.PASS: str(PASSES.get(point, 1))}
    app = f"{killing.__name__}:channels"
    with worker(database, "--concurrency", "8", "--app", app, environment=environment, **VICTIM) as victim:
        assert victim.ended() == -signal.SIGKILL
    lost = in_flight(database)
    end_leases(database)
    receiver.most = None
    arrived_before = set(receiver.times())
    receiver.delay = 0.0
    with worker(database, "--concurrency", "20") as heir:
        took = all_completed(database, AMOUNT)
        heir.says("slots; channels")
        heir.send(signal.SIGTERM)
        assert heir.ended() == 0

    report = settle_accounts(database, receiver, AMOUNT, lost | orphans, title=f"killed at {point}", took=took)
    assert len(lost - orphans) <= 8 + 8
    assert heir.count(r"stopped: \d+ finished, 0 in doubt") == 1
    if point in BEFORE_THE_WIRE:
        assert not arrived_before
        assert not report.repeated.total()


def test_point_of_the_code_is_named_and_every_name_is_a_point_where_a_worker_is_killed() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))

    assert set(re.findall(r'checkpoint\("([^"]+)"\)', source)) == {*POINTS, *MIGRATING, *CONSUMING}
    assert set(POINTS) >= ASKING
