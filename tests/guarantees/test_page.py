"""docs/guarantees.md is what the promises and the latest figures say, and every test that it names exists."""

import re

import pytest

from tests.guarantees.figures import latest
from tests.guarantees.page import PAGE, page
from tests.guarantees.promises import NOT_PROMISED, PROMISED, Promise
from tests.processes import ROOT

LINES = [*PROMISED, *NOT_PROMISED]


def test_the_page_is_what_would_be_written_now() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it again: python -m tests.guarantees.page"


@pytest.mark.parametrize("promise", LINES, ids=lambda promise: promise.words[:40])
def test_every_line_has_tests_that_exist_and_runs_that_were_made(promise: Promise) -> None:
    assert promise.tests

    for test in promise.tests:
        file, _, function = test.partition("::")
        text = (ROOT / "tests" / file).read_text("utf-8")
        assert re.search(rf"def {function}\(", text), f"{file} has no test {function}"
    assert set(promise.runs) <= latest().keys()


def test_no_published_run_has_lost_or_doubled_anything() -> None:
    runs = {name: (run["lost"], run["doubled"]) for name, run in latest().items() if "lost" in run}

    assert set(runs.values()) <= {(0, 0)}, runs
