"""SIGKILL at every named point; another worker finishes, and the accounts agree."""

import asyncio
import signal
from datetime import timedelta

import pytest

from sendonce.checkpoints import POINTS
from sendonce.stores.ports import Store
from tests.crash import killing
from tests.crash.accounts import all_completed, in_flight, publish, settle_accounts, worker
from tests.receiver import Receiver
from tests.stores.databases import Database

AMOUNT = 40
BEFORE_THE_WIRE = {"worker.after_claim"}
PASSES = {"sender.before_send": 7, "sender.after_send": 7, "keeper.before_expire": 6}


async def claimed_by_nobody(database: Database) -> None:
    """Something for the keeper to take over: the claim of a worker that is gone."""
    store: Store = await database.open()
    await store.start(99, 3, timedelta(milliseconds=1))
    await database.close()


# What is reached only where the receiver can be asked is in tests/conformance.
ASKING = {"sender.before_look_up", "sender.after_look_up"}


@pytest.mark.parametrize("point", [point for point in POINTS if point not in ASKING])
def test_a_worker_that_dies_here_loses_nothing(database: Database, receiver: Receiver, point: str) -> None:
    publish(database, receiver, AMOUNT)
    asyncio.run(claimed_by_nobody(database))
    orphans = in_flight(database)
    receiver.delay = 0.25

    environment = {killing.POINT: point, killing.PASS: str(PASSES.get(point, 1))}
    app = f"{killing.__name__}:channels"
    with worker(database, "--concurrency", "8", "--app", app, environment=environment) as victim:
        assert victim.ended() == -signal.SIGKILL
    lost = in_flight(database)
    arrived_before = set(receiver.times())
    receiver.delay = 0.0
    with worker(database, "--concurrency", "20") as heir:
        all_completed(database, AMOUNT)
        heir.send(signal.SIGTERM)
        assert heir.ended() == 0

    account = settle_accounts(database, receiver, AMOUNT, lost | orphans)
    assert len(lost - orphans) <= 8 + 8
    assert heir.count(r"stopped: \d+ finished, 0 in doubt") == 1
    if point in BEFORE_THE_WIRE:
        assert not arrived_before
        assert not account.repeated
