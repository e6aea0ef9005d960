"""What thousands of runs prove of SQLite's statements holds of PostgreSQL's: asked the same, they answer the same."""

import os
from collections.abc import Iterable
from unittest.mock import patch

import pytest

from sendonce.store.postgres.connection import QUERIES
from tests.simulation.scene import LONG, SMALL, Profile
from tests.twins.follower import Difference, Follower
from tests.twins.recording import record

SEEDS = int(os.environ.get("SEEDS") or 2000)
CHUNK = 8
CHUNKS = 3
MORE = 25


def replay(follower: Follower, seeds: Iterable[int], profile: Profile = SMALL) -> int:
    """Ask PostgreSQL what each of these runs asked; how many calls that were."""
    asked = 0
    for seed in seeds:
        calls, tables = record(seed, profile)
        follower.empty()
        try:
            for call in calls:
                follower.follow(call)
            follower.compare(tables)
        except Difference as error:
            error.add_note(f"in what the simulation asked with seed {seed}")
            raise
        asked += len(calls)
    return asked


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_postgres_answers_what_the_simulation_asks_as_sqlite_does(follower: Follower, chunk: int) -> None:
    assert replay(follower, range(chunk * CHUNK, (chunk + 1) * CHUNK)) > 50 * CHUNK


@pytest.mark.more
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chunk", range(8))
def test_postgres_answers_what_hundreds_of_runs_ask_as_sqlite_does(follower: Follower, chunk: int) -> None:
    assert replay(follower, range(1000 + chunk * MORE, 1000 + (chunk + 1) * MORE)) > 50 * MORE


@pytest.mark.soak
def test_postgres_answers_what_long_runs_ask_as_sqlite_does(follower: Follower) -> None:
    assert replay(follower, range(max(2, SEEDS // 400)), LONG) > 0


# What is changed in PostgreSQL's statements alone.
DRIFTS = {
    "a deferral is not counted": (
        "settle",
        "deferred_count = d.deferred_count +",
        "deferred_count = d.deferred_count + 0 *",
    ),
    "a lease that ends now is not over": (
        "expired_leases",
        "expires_at <= now()",
        "expires_at <= now() - interval '1 s'",
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("drift", DRIFTS)
def test_statement_that_drifts_is_found(follower: Follower, drift: str) -> None:
    name, right, wrong = DRIFTS[drift]
    assert right in QUERIES[name]

    with patch.dict(QUERIES, {name: QUERIES[name].replace(right, wrong)}), pytest.raises(Difference):
        replay(follower, range(30))
