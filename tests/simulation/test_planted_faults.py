"""The simulation finds bugs: each fault of faults.py is planted into the real code, and found within so many seeds."""

import pytest

from tests.simulation.faults import FAULTS, Fault
from tests.simulation.run import Outcome, run

# What needs more seeds than this to be found is looked for in `make test-more`.
QUICKLY = 400


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.more] if each.within > QUICKLY else []) for name, each in FAULTS.items()],
)
def test_planted_fault_is_found_by_the_rule_it_breaks(name: str) -> None:
    found = _first_failure(FAULTS[name])

    assert found is not None, f"{name} was not found within {FAULTS[name].within} seeds"
    assert {rule for rule, _ in found.violations} & FAULTS[name].rules
    assert run(found.seed, FAULTS[name].profile).violations == []


def _first_failure(fault: Fault) -> Outcome | None:
    """The first run in which one of the rules is broken that this fault is about."""
    with fault.plant():
        for seed in range(fault.within):
            outcome = run(seed, fault.profile)
            if any(rule in fault.rules for rule, _ in outcome.violations):
                return outcome
    return None
