"""Everything breaks at random under a steady load: nothing is lost, and nothing is doubled that could be prevented."""

import os
from pathlib import Path

import pytest

from tests.crash.chaos import Plan, keep, run

SECONDS = 12


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
@pytest.mark.sqlite_later
def test_short_run(database: str, tmp_path: Path) -> None:
    plan = Plan(database=database, minutes=SECONDS / 60, rate=150, seed=7, concurrency=30, rest=(0.3, 1.0))

    report = run(plan, tmp_path)

    print(f"\n{report}")
    report.check()
    assert report.published > plan.rate


@pytest.mark.more
@pytest.mark.postgres
@pytest.mark.timeout(1800)
def test_minute_behind_pgbouncer(tmp_path: Path) -> None:
    plan = Plan(database="pgbouncer", minutes=1, rate=150, seed=7, concurrency=30, rest=(1.5, 4.0))

    report = run(plan, tmp_path)

    print(f"\n{report}")
    report.check()
    assert report.published > plan.rate


@pytest.mark.more
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_minute_with_operators_at_work(database: str, tmp_path: Path) -> None:
    """Every verb that people have, and backups restored, while everything breaks."""
    plan = Plan(database=database, minutes=1, rate=100, seed=5, concurrency=30, rest=(1.5, 4.0), has_operators=True)

    report = run(plan, tmp_path)

    print(f"\n{report}")
    report.check()
    assert report.published > plan.rate
    assert report.replayed + report.decided


@pytest.mark.soak
@pytest.mark.postgres
@pytest.mark.timeout(0)
def test_chaos_for_an_hour_on_postgres(tmp_path: Path) -> None:
    minutes, rate = float(os.environ.get("CHAOS_MINUTES", "60")), float(os.environ.get("CHAOS_RATE", "1000"))
    soak(Plan(database="postgres", minutes=minutes, rate=rate, seed=int(os.environ.get("CHAOS_SEED", "1"))), tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_chaos_for_ten_minutes_on_sqlite(tmp_path: Path) -> None:
    minutes = min(10, float(os.environ.get("CHAOS_MINUTES", "60")))
    soak(Plan(database="sqlite", minutes=minutes, rate=300, seed=int(os.environ.get("CHAOS_SEED", "1"))), tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_chaos_for_ten_minutes_with_operators_at_work(database: str, tmp_path: Path) -> None:
    minutes = min(10, float(os.environ.get("CHAOS_MINUTES", "60")))
    seed = int(os.environ.get("CHAOS_SEED", "1"))
    soak(Plan(database=database, minutes=minutes, rate=100, seed=seed, has_operators=True), tmp_path)


def soak(plan: Plan, folder: Path) -> None:
    """Run it, keep its figures, and then look at them."""
    report = run(plan, folder)
    print(f"\n{report}")
    keep(plan, report)
    report.check()
