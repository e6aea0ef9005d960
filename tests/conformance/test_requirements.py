"""docs/requirements.md names the tests that prove it: they are there, and named after what they prove."""

import re

import pytest

from tests.processes import ROOT

LINE = re.compile(r"^\| ([A-Z]\d+) \| (.*`test_.*) \|$", re.MULTILINE)
PROVEN = dict(LINE.findall((ROOT / "docs/requirements.md").read_text()))
TESTS = {
    name
    for file in (ROOT / "tests").rglob("*.py")
    for name in re.findall(r"def (test_\w+)", file.read_text())
}  # fmt: skip


@pytest.mark.parametrize("number", PROVEN)
def test_what_proves_a_requirement_is_there_and_has_its_number(number: str) -> None:
    named = re.findall(r"`(test_\w+)`", PROVEN[number])

    assert set(named) <= TESTS
    assert all(number in name.split("_") for name in named)


def test_every_requirement_of_the_channels_and_of_reconciliation_has_its_proof() -> None:
    wanted = {"R9", "R10", "R11", *(f"R{number}" for number in range(13, 20)), "M14", "M15", "D2", "D4"}

    assert wanted <= set(PROVEN)
