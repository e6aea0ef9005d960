"""How much of `make test` each suite may take: what is over its budget is said at the end of a run."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest

# Seconds of one of the four workers on a quiet machine of two cores; together they stay below the 16 minutes of a run.
BUDGETS = {
    "admin": 46, "apps": 130, "attack": 100, "channels": 95, "cli": 340, "config": 45, "conformance": 385,
    "consumer": 130, "contrib": 15, "crash": 365, "demo": 40, "docs": 60, "doctor": 40, "domain": 35, "engine": 255,
    "failover": 2, "frozen": 30, "guarantees": 5, "inbox": 80, "load": 25, "lowest": 2, "model": 25,
    "observability": 12, "outbox": 215, "pythons": 2, "receive": 30, "servers": 40, "simulation": 180, "store": 760,
    "testing": 90, "twins": 75, "upgrade": 85, "verify": 100,
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
