"""An asynchronous standby that has not got all commits takes over, and an old primary returns: what that costs."""

import time
from pathlib import Path

import pytest

from tests.crash.checking import verify
from tests.crash.report import Report
from tests.failover.counting import count
from tests.failover.stage import FailoverStage
from tests.guarantees.figures import record
from tests.processes import until

pytestmark = [pytest.mark.more, pytest.mark.postgres, pytest.mark.timeout(1800)]
FORGOTTEN = 60


def test_asynchronous_standby_that_is_behind_costs_what_the_docs_say(tmp_path: Path) -> None:
    """Sends take longer than the standby is behind, so that results of the lost life come late to the new primary,
    which gives its numbers out again."""
    with FailoverStage(tmp_path, is_synchronous=False, rate=60, concurrency=200) as stage:
        stage.recorder.behave(late=1.0, seconds=1.5)
        stage.received(200)
        stage.caught_up()
        stage.cluster.fall_behind()
        begun = time.monotonic()
        # Of what was not recorded when it fell behind, so much is sent: commits that nobody else has.
        stage.received(stage.open_deliveries()[0] + FORGOTTEN)
        behind = time.monotonic() - begun
        stage.fail_over()
        stage.received(200)
        stage.check()
        stage.stop_publishing()
        stage.drained()
        account = count(stage.database, tmp_path, stage.recorder.ledger(tmp_path))
        verified = Report(title="")
        verify(stage.database, verified)
        said = "".join(worker.said for worker in stage.workers)

    print(f"\n{account}")
    record(
        "failover-asynchronous",
        {
            "seconds_behind": round(behind, 1),
            "events": account.published,
            "forgotten": account.forgotten,
            "forgotten_sent": account.forgotten_sent,
            "marked_sent_and_unsent": account.unsent,
            "held": account.held,
            **{f"again_{kind}": account.again[kind] for kind in ("recognised", "asked", "held", "resent")},
        },
    )
    assert account.forgotten_sent, "nothing was sent and lost, so nothing was tried"
    assert account.unsent == 0
    assert not account.strange
    assert {kind for kind, times in account.again.items() if times} <= {"resent"}
    assert not verified.strange.total(), str(verified)
    assert "this database has lost commits" in said


def test_primary_that_returns_is_a_stranger(tmp_path: Path) -> None:
    """A worker that is led back to it meets a database that is older than what it has seen, and sends nothing there
    that it has not asked about: what it then sends again is of who cannot be asked."""
    with FailoverStage(tmp_path, is_synchronous=False, rate=60) as stage:
        stage.received(100)
        stage.fail_over()
        stage.received(150)
        stage.stop_publishing()
        stage.drained()
        before = stage.recorder.totals()["distinct"]
        stage.cluster.return_as_stranger()
        stage.lead_to(stage.cluster.standby)
        until(lambda: any(worker.count("has lost commits") for worker in stage.workers), "a worker to notice")
        stage.check()
        assert stage.recorder.totals()["distinct"] == before
