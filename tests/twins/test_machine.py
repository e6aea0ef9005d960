"""The same verbs in the same order, on SQLite and on PostgreSQL: the same answers, the same errors, the same tables."""

import os
from typing import cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.twins.follower import Follower
from tests.twins.machine import Twins

SEEDS = int(os.environ.get("SEEDS") or 2000)


def hold(follower: Follower, *, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        cast(type[Twins], lambda: Twins(follower)),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_databases_do_the_same_whatever_they_are_asked(follower: Follower) -> None:
    hold(follower, examples=10, steps=40)


@pytest.mark.more
@pytest.mark.timeout(3600)
def test_databases_do_the_same_whatever_they_are_asked_for_longer(follower: Follower) -> None:
    hold(follower, examples=100, steps=60)


@pytest.mark.soak
def test_databases_do_the_same_whatever_they_are_asked_for_long(follower: Follower) -> None:
    hold(follower, examples=SEEDS, steps=80)
