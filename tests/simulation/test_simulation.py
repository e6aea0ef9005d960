"""Thousands of runs of the real engine, each with another seed: what must hold holds in all of them."""

import hashlib
import os
import subprocess
import sys

import pytest

from tests.guarantees.figures import record
from tests.processes import ROOT
from tests.simulation.__main__ import main
from tests.simulation.many import play, play_many
from tests.simulation.run import run

SEEDS = int(os.environ.get("SEEDS") or 2000)
CHUNK = 250
CHUNKS = 8
# So many of them with every change; the rest in `make test-more`.
ALWAYS = 2
# A long run has about 180 crashes: `make soak SEEDS=23000` has a million.
LONG_SEEDS = max(2, SEEDS // 4)
TRACE = """
import hashlib, sys
from tests.simulation.run import run
trace = hashlib.sha256()
run(int(sys.argv[1]), note=lambda line: trace.update(line.encode()))
print(trace.hexdigest())
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "chunk", [pytest.param(chunk, marks=[pytest.mark.more] if chunk >= ALWAYS else []) for chunk in range(CHUNKS)]
)
def test_simulation_loses_and_doubles_nothing_whatever_happens(chunk: int) -> None:
    total = play(range(chunk * CHUNK, (chunk + 1) * CHUNK))

    assert total.failures == []
    assert total.figures["crashes"] > CHUNK
    assert total.figures["late_results"] > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_simulation_loses_and_doubles_nothing_behind_breakers() -> None:
    """Channels fail more often than not: breakers open, are probed, and ramp up while everything else goes wrong."""
    assert play(range(20), profile="outages").failures == []


@pytest.mark.more
@pytest.mark.timeout(1800)
def test_simulation_loses_and_doubles_nothing_behind_breakers_for_long() -> None:
    assert play(range(20, 100), profile="outages").failures == []


def test_seed_decides_the_whole_run() -> None:
    first, second = (_trace_of(7), _trace_of(7))

    assert first == second
    assert first != _trace_of(8)


@pytest.mark.slow
def test_seed_is_the_same_run_in_another_process() -> None:
    traces = {_trace_elsewhere(11, hash_seed) for hash_seed in ("1", "2")}

    assert traces == {_trace_of(11)}


@pytest.mark.soak
def test_simulation_loses_and_doubles_nothing_for_long() -> None:
    """Two processes of its own, so that one test keeps the figures of all of it."""
    total = play_many(0, LONG_SEEDS, profile="long", processes=2)

    names = (
        "events", "deliveries", "attempts", "sends", "crashes", "freezes", "stops", "database_faults", "clock_jumps",
        "memory_losses", "late_results", "lost", "doubled", "held", "repeated_by_network", "repeated_after_forgotten",
        "repeated_after_cannot_tell", "repeated_after_late_arrival", "repeated_when_unsure", "repeated_by_operator",
    )  # fmt: skip
    figures: dict[str, int | float | str | None] = {name: total.figures[name] for name in names}
    recovery = round(total.longest_recovery, 1)
    took = round(total.took_seconds, 1)
    record("simulation", {"seeds": total.seeds, **figures, "longest_recovery_seconds": recovery, "took_seconds": took})
    assert total.failures == []


@pytest.mark.parametrize("option", ["--seeds", "--processes"])
def test_option_of_zero_is_refused(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["simulation", "--seeds", "1", option, "0"])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert f"argument {option}: must be at least 1, not 0" in capsys.readouterr().err


def _trace_of(seed: int) -> str:
    trace = hashlib.sha256()
    run(seed, note=lambda line: trace.update(line.encode()))
    return trace.hexdigest()


def _trace_elsewhere(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", TRACE, str(seed)], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=600, check=True,
    )  # fmt: skip
    return done.stdout.strip()
