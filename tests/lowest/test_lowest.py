"""Our lower bounds are versions that hold: the same hostile receivers, names and texts, on exactly those."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lowest.bounds import EXTRAS, ROOT, as_numbers, exact_versions, lower_bounds

TOOLS = ("pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis", "trustme", "standardwebhooks")
SUITES = (
    "tests/attack/test_addresses.py",
    "tests/attack/test_hostile_answers.py",
    "tests/attack/test_http_headers.py",
    "tests/attack/test_mail_headers.py",
    "tests/attack/test_profiles.py",
    "tests/attack/test_rebinding.py",
    "tests/channels/test_client.py",
    "tests/channels/test_guard.py",
    "tests/channels/test_names.py",
    "tests/channels/test_smtp_failures.py",
    "tests/engine/test_metrics_server.py",
)


def test_extra_has_one_lower_bound_below_what_is_tested_otherwise() -> None:
    exact = exact_versions()

    for name, versions in lower_bounds().items():
        [lowest] = versions
        assert as_numbers(lowest) <= as_numbers(exact[name]), name


def test_reasons_for_the_lower_bounds_are_written_down() -> None:
    text = (ROOT / "docs/adr/0001-dependencies.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 4]
    written = {
        name.strip(): version.strip()
        for _, names, versions, *_ in rows
        for name, version in zip(names.split(","), versions.split(","), strict=False)
    }

    assert {name: min(versions) for name, versions in lower_bounds().items()}.items() <= written.items()


@pytest.mark.more
@pytest.mark.timeout(3600)
def test_attacks_are_withstood_on_the_lowest_versions(tmp_path: Path) -> None:
    constraints = exact_versions() | {name: min(versions) for name, versions in lower_bounds().items()}
    # A driver and its binaries go together; what else these need is for pip to say.
    constraints["psycopg-binary"] = constraints["psycopg"]
    for needed in ("aiohappyeyeballs", "aiosignal", "cffi", "frozenlist", "multidict", "propcache", "yarl"):
        constraints.pop(needed)
    (tmp_path / "lowest.txt").write_text("".join(f"{name}=={version}\n" for name, version in constraints.items()))
    python = tmp_path / "venv" / "bin" / "python"
    _run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    _run(
        str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint",
        str(tmp_path / "lowest.txt"), "--editable", f"{ROOT}[{','.join(EXTRAS)}]", *TOOLS,
    )  # fmt: skip

    said = _run(str(python), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *SUITES)

    assert " passed" in said
    assert " skipped" not in said


def _run(*command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SENDONCE_"))}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-3000:]
    return ran.stdout
