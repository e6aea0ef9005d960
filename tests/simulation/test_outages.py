"""Receivers that are away, or answer now and then: they get their share, and are found again soon."""

import re

import pytest

from tests.guarantees.figures import latest
from tests.processes import ROOT
from tests.simulation.outages import A_SECOND, CHANNEL, HOST, recovery, watch

FIRST_PAUSE = 10.0
# Until a worker looks, and the probe is there.
LOOK = 2.5


@pytest.mark.parametrize("to", [HOST, CHANNEL])
@pytest.mark.parametrize("outage", [30.0, 31.5, 33.0])
def test_outage_of_half_a_minute_is_over_within_fifteen_seconds(outage: float, to: str) -> None:
    """It may end just before a probe, or just after one."""
    assert recovery(1, outage, to=to) <= 15.0


@pytest.mark.slow
def test_outage_of_five_minutes_is_over_within_half_of_that() -> None:
    assert recovery(0, 300.0) <= 150.0


@pytest.mark.parametrize("to", [HOST, CHANNEL])
@pytest.mark.parametrize("seed", range(2))
def test_receiver_that_answers_seven_of_ten_keeps_its_flow(seed: int, to: str) -> None:
    """It sends again what was not answered, later: nothing of it waits for a breaker."""
    seen = watch(seed, [(60.0, 0.7)], to=to)

    assert seen.longest_silence < 2.0
    assert len(seen.taken) >= 0.6 * 60 * A_SECOND


@pytest.mark.parametrize("to", [HOST, CHANNEL])
def test_receiver_that_was_away_and_answers_seven_of_ten_has_its_flow_again(to: str) -> None:
    """While it ramps up, one failure does not stop it."""
    seen = watch(3, [(5.0, 1.0), (30.0, 0.0), (60.0, 0.7)], to=to)
    back = [at for at in seen.taken if at > seen.changes[-1] + 20]

    assert len(back) >= 0.6 * 40 * A_SECOND


@pytest.mark.parametrize("share", [0.3, 0.05])
def test_receiver_that_answers_a_small_share_is_never_left_alone_for_longer_than_the_pause(share: float) -> None:
    seen = watch(4, [(120.0, share)])

    assert seen.longest_silence <= max(FIRST_PAUSE, 120.0 / 2) + LOOK
    assert seen.taken


def test_page_shows_what_was_measured() -> None:
    figures = latest()["recovery"]
    page = (ROOT / "docs/about/fairness.md").read_text("utf-8")

    rows = re.findall(r"^\| (\d+) s \| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    measured = [(n, str(figures[f"after_{n}_s"]), str(figures[f"after_{n}_s_longest"])) for n in ("5", "30", "120")]
    assert rows == measured
    assert float(str(figures["after_30_s_longest"])) <= 15.0
