"""A planned switchover: the old primary comes back as a standby at its old address, and workers go on by themselves."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.checking import examine, verify
from tests.crash.report import Report
from tests.failover.stage import FailoverStage
from tests.processes import ROOT, until

pytestmark = [pytest.mark.more, pytest.mark.postgres, pytest.mark.timeout(1800)]


def test_workers_that_are_led_to_the_standby_say_so_once_and_go_on(tmp_path: Path) -> None:
    """By themselves, when the address is the new primary's."""
    with FailoverStage(tmp_path, is_synchronous=True) as stage:
        stage.received(100)
        stage.caught_up()  # no worker is so busy that it does not claim
        old = stage.cluster.primary
        stage.cluster.switch_over()
        stage.cluster.return_as_standby()
        stage.lead_to(old)
        for worker in stage.workers:
            worker.says("worker: .*only reads")
            worker.says("lease keeper: .*only reads")
        stage.follow()
        stage.received(200)
        stage.check()
        stage.stop_publishing()
        stage.drained()
        report = Report(title="a planned switchover")
        examine(stage.database, tmp_path, stage.recorder.ledger(tmp_path), report)
        verify(stage.database, report)
        for worker in stage.workers:
            said = Counter(re.findall(r"(worker|results|lease keeper): .*only reads", worker.said))
            assert set(said.values()) == {1}, worker.said
            assert "has lost commits" not in worker.said
            until(lambda worker=worker: worker.count("lease keeper: the database is back"), "it to be back")  # type: ignore[misc]

    print(f"\n{report}")
    report.check()


def test_reader_may_look_at_a_standby(tmp_path: Path) -> None:
    with FailoverStage(tmp_path, is_synchronous=True) as stage:
        stage.received(50)
        stage.stop_publishing()
        stage.drained()
        asked = {
            words: subprocess.run(
                [sys.executable, "-m", "sendonce", *words.split(), "--database", stage.cluster.standby.dsn(stage.name)],
                cwd=ROOT, capture_output=True, text=True, check=False,
            )
            for words in ("status", "deliveries list", "verify", "doctor", "stop --all --reason test")
        }  # fmt: skip

    codes = {words: ran.returncode for words, ran in asked.items()}
    said = "\n".join(ran.stdout + ran.stderr for ran in asked.values())
    assert codes == {"status": 0, "deliveries list": 0, "verify": 0, "doctor": 1, "stop --all --reason test": 1}, said
    assert "point workers and publishers at the primary" in asked["doctor"].stdout
    assert "only reads" in asked["stop --all --reason test"].stderr
