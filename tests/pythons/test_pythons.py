"""The same on every Python that we name: what they do differently shows in channels, loops and sqlite3."""

import os
import subprocess
import sys

import pytest

from tests.processes import ROOT
from tests.pythons.interpreters import environment, farthest, found, named
from tests.servers.os_users import FOLDER

PARTS = ("tests/channels", "tests/domain", "tests/engine", "tests/outbox", "tests/store", "tests/testing")
OURS = ("PYTHONPATH", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "VIRTUAL_ENV", FOLDER)


def test_classifiers_name_the_python_that_runs_the_tests() -> None:
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in found()


@pytest.mark.matrix
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "version",
    # The one that runs us is what every other test is run by: `make test-more` takes the one farthest from it.
    [pytest.param(each, marks=[pytest.mark.more] if each == farthest() else []) for each in found()],
)
def test_suite_passes_on_python(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that this machine has not are named: nothing is passed over in silence."""
    python = environment(version, found()[version])
    variables = {name: value for name, value in os.environ.items() if name not in OURS}

    ran = subprocess.run(
        [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "-k", "not postgres", *PARTS],
        cwd=ROOT, env=variables | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    with capsys.disabled():
        missing = [each for each in named() if each not in found()]
        print(f"\nPython {version}: {ran.stdout.splitlines()[-1]}; not on this machine: {', '.join(missing) or 'none'}")
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
