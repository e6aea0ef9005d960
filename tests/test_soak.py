"""A soak that is stopped goes on where it was, and all its parts are of one commit."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import soak
from tests.processes import ROOT

HEAD = "0123abcd"


class Runner:
    """Notes what it is to run; some of it fails."""

    def __init__(self, *failing: str) -> None:
        self.ran: list[str] = []
        self.failing = failing

    def __call__(self, arguments: Sequence[str]) -> int:
        part = next(name for name, each in soak.PARTS.items() if each == arguments)
        self.ran.append(part)
        return 1 if part in self.failing else 0


@pytest.fixture(autouse=True)
def _checked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "commit", lambda: HEAD)


def test_soak_goes_on_with_the_parts_that_have_not_passed(tmp_path: Path) -> None:
    first, second = Runner("model"), Runner()

    failed = soak.soak(["simulation", "model", "twins"], head=HEAD, folder=tmp_path, runner=first)
    failed_then = soak.soak(["simulation", "model", "twins"], head=HEAD, folder=tmp_path, runner=second)

    assert (failed, failed_then) == (["model"], [])
    assert second.ran == ["model"]


def test_soak_of_another_commit_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner()
    soak.soak(["model"], head=HEAD, folder=tmp_path, runner=Runner())
    monkeypatch.setattr(soak, "commit", lambda: "89abcdef")

    soak.soak(["model"], head="89abcdef", folder=tmp_path, runner=runner)

    assert runner.ran == ["model"]


@pytest.mark.parametrize("head", [None, f"{HEAD}+"])
def test_soak_of_a_changed_package_is_refused(head: str | None, tmp_path: Path) -> None:
    runner = Runner()

    with pytest.raises(soak.Mixed, match="commit first"):
        soak.soak(["model"], head=head, folder=tmp_path, runner=runner)

    assert runner.ran == []


def test_soak_stops_when_another_commit_is_checked_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner()
    monkeypatch.setattr(soak, "commit", lambda: "89abcdef")

    with pytest.raises(soak.Mixed, match="something else is checked out"):
        soak.soak(["model", "twins"], head=HEAD, folder=tmp_path, runner=runner)

    assert runner.ran == ["model"]


def test_soak_has_a_part_for_every_long_test() -> None:
    named = [argument for part in soak.PARTS.values() for argument in part if argument.startswith("tests/")]
    marked = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").glob("*/test_*.py")
        if re.search(r"pytest\.mark\.soak\b", path.read_text("utf-8"))
    ]

    assert [path for path in marked if not path.startswith(tuple(named))] == []
