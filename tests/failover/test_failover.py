"""A primary dies under load and its synchronous standby takes over: nothing is lost, nothing is doubled."""

import time
from pathlib import Path

import pytest

from tests.crash.checking import count_outcomes, examine, verify
from tests.crash.report import Report
from tests.failover.stage import FailoverStage, Way
from tests.guarantees.figures import record

pytestmark = [pytest.mark.more, pytest.mark.postgres, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("way", ["one address", "both addresses"])
def test_synchronous_standby_takes_over_and_nothing_is_lost_or_doubled(tmp_path: Path, way: Way) -> None:
    with FailoverStage(tmp_path, is_synchronous=True, way=way) as stage:
        stage.recorder.behave(late=1.0, seconds=0.5)
        stage.received(200)
        begun = time.monotonic()
        stage.fail_over()
        stage.received(200)
        took = time.monotonic() - begun
        stage.check()
        stage.stop_publishing()
        stage.drained()
        report = Report(title=f"a synchronous standby takes over, {way}", recovery_seconds=took)
        examine(stage.database, tmp_path, stage.recorder.ledger(tmp_path), report)
        verify(stage.database, report)
        report.in_doubt = count_outcomes(stage.database)["Unknown"]
        said = "".join(worker.said for worker in stage.workers)

    print(f"\n{report}")
    record(
        f"failover-{way.replace(' ', '-')}",
        {
            "events": report.published,
            "lost": report.lost,
            "doubled": report.doubled.total(),
            "repeated": report.repeated.total(),
            "held": report.held,
            "strange": report.strange.total(),
            "server_stops": 1,
            "longest_recovery_seconds": round(took, 1),
        },
    )
    report.check()
    assert "has lost commits" not in said
