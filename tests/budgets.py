"""How much of `make test` each suite may take: what is over its budget is said at the end of a run."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest

# Seconds of one of the four workers on a quiet machine of two cores; together they stay below the 16 minutes of a run.
BUDGETS = {
    "admin": 46, "apps": 150, "attack": 110, "channels": 95, "cli": 350, "config": 45, "conformance": 400,
    "consumer": 130, "contrib": 15, "crash": 390, "demo": 40, "docs": 60, "doctor": 40, "domain": 35, "engine": 260,
    "failover": 2, "frozen": 30, "guarantees": 5, "inbox": 60, "load": 25, "lowest": 2, "model": 25,
    "observability": 12, "outbox": 240, "pythons": 2, "receive": 30, "servers": 40, "simulation": 200, "store": 780,
    "testing": 100, "twins": 85, "upgrade": 85, "verify": 110,
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
