"""What `make payments` runs: at its end the ledgers agree, whatever was doubled, killed and lost."""

import re
import subprocess
import sys

import pytest

from tests.processes import ROOT, SECONDS

pytestmark = pytest.mark.slow


@pytest.mark.more
@pytest.mark.parametrize("mode", ["sure", "chance"])
def test_demonstration_ends_with_ledgers_that_agree(mode: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "apps.chancepay", "demo", "--mode", mode, "--payments", "60"],
        cwd=ROOT, capture_output=True, text=True, timeout=2 * SECONDS, check=False,
    )  # fmt: skip

    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert "killed: the wallet's listener" in said
    assert counted(r"messages doubled on the way: (\d+)", said) > 0
    assert counted(r"reports lost on the way: (\d+)", said) > 0
    assert said.count("=\n") == 5
    assert said.endswith("the ledgers agree\n")
    settled = counted(r", (\d+) settled", said)
    assert (settled > 0) == (mode == "chance"), "in mode sure what is lost is sent again by itself"


def test_demonstration_is_what_make_payments_starts() -> None:
    [recipe] = re.findall(r"^payments: \$\(TO_SERVE\) ## .+\n\t@(.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert recipe == "$(BIN)/python -m apps.chancepay demo"


def counted(pattern: str, said: str) -> int:
    [number] = re.findall(pattern, said)
    return int(number)
