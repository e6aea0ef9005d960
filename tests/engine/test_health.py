"""What a worker knows of itself."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from sendonce.engine import health as module
from sendonce.engine.health import Health
from sendonce.observability.facts import Begun, DatabaseBack, DatabaseLost

BEGUN = Begun(worker_id=1, name="host:1", concurrency=1, channels=())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds; the last one counts."""
    times = [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: times[-1]))
    return times


def test_loop_that_has_not_gone_round_for_long_is_stuck(clock: list[float]) -> None:
    health = Health()
    health.turn("worker")
    clock.append(1000 + module.STUCK_SECONDS)
    assert health.stuck() is None

    clock.append(1001 + module.STUCK_SECONDS)

    assert health.stuck() == "worker: its loop has not gone round for 181 s"


def test_loop_that_has_nothing_to_do_is_not_stuck(clock: list[float]) -> None:
    health = Health()
    health.turn("results")
    health.rest("results")
    clock.append(9999)

    assert health.stuck() is None


def test_loop_that_has_ended_with_an_error_is_told_at_once() -> None:
    health = Health()
    health.turn("worker")
    health.end("worker")
    health.rest("worker")

    assert health.stuck() == "worker: its loop has ended with an error"


def test_health_is_not_ready_before_registration_and_when_stopping() -> None:
    health = Health()
    assert health.unready() == "the worker is not registered yet"
    health.on_fact(BEGUN)
    assert health.unready() is None

    health.is_stopping = True

    assert health.unready() == "the worker is stopping"


def test_health_is_not_ready_while_a_part_has_lost_the_database() -> None:
    health = Health()
    health.on_fact(BEGUN)

    health.on_fact(DatabaseLost(part="results", reason="no"))
    assert health.unready() == "results: the database does not answer"
    assert health.has_lost_the_database
    health.on_fact(DatabaseBack(part="results", after=timedelta(seconds=1)))

    assert health.unready() is None
    assert not health.has_lost_the_database


def test_health_heard_just_now_need_not_be_asked(clock: list[float]) -> None:
    health = Health()
    assert not health.has_heard_lately
    health.heard()
    assert health.has_heard_lately

    clock.append(1003)

    assert not health.has_heard_lately
