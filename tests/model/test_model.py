"""The model on both databases: long on SQLite in memory, shorter on PostgreSQL, for as long as one likes in a soak."""

import asyncio
import os
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from sendonce.store.postgres.migrate import migrate
from tests.model.databases import MemoryDatabase, ServerDatabase
from tests.model.machine import Machine

SEEDS = int(os.environ.get("SEEDS") or 2000)


def hold(database: Callable[[], Any], *, examples: int, steps: int) -> None:
    """Try so many histories, and require of each what must hold whatever happens."""
    run_state_machine_as_test(
        cast(type[Machine], lambda: Machine(database)),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


@pytest.mark.timeout(1800)
def test_model_holds_on_sqlite_whatever_happens() -> None:
    hold(MemoryDatabase, examples=60, steps=40)


@pytest.mark.timeout(1800)
def test_model_holds_on_postgres_whatever_happens(pg_dsn: str) -> None:
    asyncio.run(migrate(pg_dsn))

    hold(lambda: ServerDatabase(pg_dsn), examples=10, steps=25)


@pytest.mark.soak
def test_model_holds_on_sqlite_for_long() -> None:
    hold(MemoryDatabase, examples=SEEDS, steps=60)


@pytest.mark.soak
def test_model_holds_on_postgres_for_long(pg_dsn: str) -> None:
    asyncio.run(migrate(pg_dsn))

    hold(lambda: ServerDatabase(pg_dsn), examples=max(1, SEEDS // 20), steps=60)
