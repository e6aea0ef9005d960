"""SIGTERM and SIGINT to a real worker: it finishes, says what it did, and its exit code is 0."""

import signal

import pytest

from tests.crash.accounts import all_completed, completed, in_flight, publish, worker
from tests.processes import until
from tests.receiver import Receiver
from tests.store.databases import Database


@pytest.mark.parametrize("order", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_graceful_shutdown_finishes_what_is_in_flight(
    database: Database, receiver: Receiver, order: signal.Signals
) -> None:
    publish(database, receiver, 20)
    receiver.is_held = True

    with worker(database, "--concurrency", "4") as here:
        until(lambda: len(receiver.arrivals) >= 4, "four in flight")
        here.send(order)
        here.says("stopping: 4 in flight")
        receiver.is_held = False
        assert here.ended() == 0

    assert here.count("stopped: 4 finished, 0 in doubt") == 1
    assert (completed(database), len(receiver.arrivals), len(in_flight(database))) == (4, 4, 0)


def test_send_that_outlasts_the_grace_period_is_in_doubt_and_sent_again(database: Database, receiver: Receiver) -> None:
    publish(database, receiver, 3)
    receiver.is_held = True

    with worker(database, "--concurrency", "4", "--grace", "100ms") as here:
        until(lambda: len(receiver.arrivals) >= 3, "three in flight")
        here.send(signal.SIGTERM)
        assert here.ended() == 0
    receiver.is_held = False
    with worker(database):
        all_completed(database, 3)

    assert here.count("stopped: 3 finished, 3 in doubt") == 1
    assert [(row["outcome"], row["error_code"]) for row in database.rows("attempts")] == [
        ("Unknown", "stopped"),
        ("Delivered", None),
    ] * 3
    assert set(receiver.times().values()) == {2}
