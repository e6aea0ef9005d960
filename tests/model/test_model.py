"""The model on both databases: long on SQLite in memory, shorter on PostgreSQL."""

import asyncio
from typing import cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from sendonce.stores.postgres.migrator import migrate
from tests.model.databases import MemoryDatabase, ServerDatabase
from tests.model.machine import Machine

SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.timeout(180)
def test_what_must_hold_holds_on_sqlite_whatever_happens() -> None:
    run_state_machine_as_test(
        cast(type[Machine], lambda: Machine(MemoryDatabase)),
        settings=settings(max_examples=60, stateful_step_count=40, suppress_health_check=SLOW_IS_FINE),
    )


@pytest.mark.timeout(180)
def test_what_must_hold_holds_on_postgres_whatever_happens(pg_dsn: str) -> None:
    asyncio.run(migrate(pg_dsn))

    run_state_machine_as_test(
        cast(type[Machine], lambda: Machine(lambda: ServerDatabase(pg_dsn))),
        settings=settings(max_examples=10, stateful_step_count=25, suppress_health_check=SLOW_IS_FINE),
    )
