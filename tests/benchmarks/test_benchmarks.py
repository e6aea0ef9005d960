"""One short round of every benchmark, so that none of them rots. Nothing is judged by its speed here."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BARS

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_benchmark_runs() -> None:
    command = [sys.executable, "-m", "benchmarks", "--rounds", "1", "--deliveries", "1000", "--behind", "1000"]

    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)

    assert run.returncode == 0, run.stderr[-2000:]
    assert all(bar in run.stdout for bar in BARS)
