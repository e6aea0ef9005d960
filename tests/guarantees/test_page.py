"""docs/reference/guarantees.md is what the promises and the latest figures say, and every test that it names exists."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.guarantees.figures import commit, latest, write
from tests.guarantees.page import PAGE, page
from tests.guarantees.promises import NOT_PROMISED, PROMISED, Promise
from tests.processes import ROOT

LINES = [*PROMISED, *NOT_PROMISED]


def test_page_is_what_would_be_written_now() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it again: python -m tests.guarantees.page"


@pytest.mark.parametrize("promise", LINES, ids=lambda promise: promise.words[:40])
def test_line_has_tests_that_exist_and_runs_that_were_made(promise: Promise) -> None:
    assert promise.tests

    for test in promise.tests:
        file, _, function = test.partition("::")
        text = (ROOT / "tests" / file).read_text("utf-8")
        assert re.search(rf"def {function}\(", text), f"{file} has no test {function}"
    assert set(promise.runs) <= latest().keys()


def test_figures_that_are_published_have_nothing_lost_or_doubled() -> None:
    runs = {name: (run["lost"], run["doubled"]) for name, run in latest().items() if "lost" in run}

    assert set(runs.values()) <= {(0, 0)}, runs


def test_run_is_kept_with_its_date_in_place_of_the_last_one(tmp_path: Path) -> None:
    write(tmp_path, "again", {"lost": 1})
    write(tmp_path, "again", {"lost": 0})

    [run] = latest(tmp_path).values()
    assert (run["run"], run["lost"]) == ("again", 0)
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", str(run["date"]))


def test_run_is_named_by_its_commit(tmp_path: Path) -> None:
    assert commit(tmp_path) is None
    for arguments in ("init", "add .", "-c user.name=a -c user.email=a@example.com commit --allow-empty --message a"):
        subprocess.run(["git", *arguments.split()], cwd=tmp_path, check=True, capture_output=True)

    there = commit(tmp_path) or ""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/new.py").touch()

    assert re.fullmatch(r"[0-9a-f]{8,}", there)
    assert commit(tmp_path) == f"{there}+"
