"""How much of `make test` each suite may take: what is over its budget is said at the end of a run."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest

# Seconds of one of the four workers on a quiet machine of two cores; together they stay below the 16 minutes of a run.
BUDGETS = {
    "apps": 36, "attack": 25, "channels": 30, "cli": 110, "conformance": 205, "contrib": 10, "crash": 230, "demo": 25,
    "docs": 5, "doctor": 20, "domain": 15, "engine": 115, "failover": 2, "guarantees": 2, "load": 30, "lowest": 2,
    "model": 10, "observe": 5, "outbox": 70, "pythons": 2, "receiving": 15, "servers": 10, "settings": 15,
    "simulation": 120, "stores": 260, "testing": 40, "twins": 45, "upgrade": 40, "verify": 40,
}  # fmt: skip


def seconds_by_suite(reports: Iterable[pytest.TestReport]) -> dict[str, float]:
    """What each folder of tests took, fixtures included."""
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        suite = report.nodeid.removeprefix("tests/").partition("/")[0]
        seconds[suite] += report.duration
    return seconds


def over_budget(seconds: Mapping[str, float]) -> list[str]:
    """One line for each suite that took longer than it may."""
    return [
        f"tests/{suite} took {seconds.get(suite, 0.0):.0f} s of one worker; its budget is {budget} s"
        for suite, budget in BUDGETS.items()
        if seconds.get(suite, 0.0) > budget
    ]
