"""What was frozen before the house is rebuilt is as it was; each difference is made on purpose, with `tests.frozen`."""

import pytest

from tests.frozen import traces
from tests.frozen.__main__ import FROZEN, KEPT

FIRST = 5


@pytest.mark.parametrize("part", ["names", "help", "sql"])
def test_names_helps_and_sql_are_as_they_were_frozen(part: str) -> None:
    """After a change on purpose: python -m tests.frozen names help sql."""
    for name, make in FROZEN[part].items():
        assert make() == (KEPT / name).read_text(), f"{name} is not as it was frozen"


def kept_digests() -> list[str]:
    return (KEPT / "traces.txt").read_text().split()


@pytest.mark.parametrize("batch", range(FIRST))
def test_trace_of_the_engine_is_as_it_was_frozen(batch: int) -> None:
    """A difference that is meant is explained in its commit, and frozen with: python -m tests.frozen traces."""
    assert traces.digest(batch) == kept_digests()[batch]


@pytest.mark.more
@pytest.mark.parametrize("batch", range(FIRST, traces.SEEDS // traces.BATCH))
def test_trace_of_the_engine_is_as_it_was_frozen_in_many_more_runs(batch: int) -> None:
    assert traces.digest(batch) == kept_digests()[batch]
