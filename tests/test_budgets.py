"""Every suite has a budget, and together they leave `make test` within its 16 minutes."""

from types import SimpleNamespace
from typing import Any

from tests.budgets import BUDGETS, over_budget, seconds_by_suite
from tests.processes import ROOT

RUN_SECONDS = 16 * 60
WORKERS = 4
# Run by hand, or what others stand on.
WITHOUT = {"benchmarks"}


def test_suite_has_a_budget_and_together_they_fit_into_a_run() -> None:
    suites = {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}

    assert suites - WITHOUT == set(BUDGETS)
    assert sum(BUDGETS.values()) <= RUN_SECONDS * WORKERS


def test_suite_that_takes_too_long_is_named() -> None:
    def report(nodeid: str, duration: float) -> Any:
        return SimpleNamespace(nodeid=nodeid, duration=duration)

    budget = BUDGETS["docs"]
    told = [report("tests/docs/test_a.py::test_b", budget), report("tests/docs/test_a.py::test_b", 2.0)]

    assert over_budget(seconds_by_suite(told)) == [
        f"tests/docs took {budget + 2} s of one worker; its budget is {budget} s"
    ]
