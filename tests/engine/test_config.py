"""A worker's settings are checked before anything starts, and backoff says things once."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from sendonce.engine.background import FIRST_SECONDS, LONGEST_SECONDS, Backoff, Outage
from sendonce.engine.config import WorkerConfig
from sendonce.errors import ConfigError, StoreBusy
from sendonce.observability.facts import DatabaseBack, DatabaseLost, Fact


@pytest.mark.parametrize(
    "setting",
    [
        {"concurrency": 0},
        {"concurrency": 10_001},
        {"lease": timedelta(milliseconds=900)},
        {"lease": timedelta(hours=2)},
        {"poll": timedelta(0)},
        {"poll": timedelta(hours=1)},
        {"grace": timedelta(seconds=-1)},
    ],
)
def test_setting_out_of_range_is_refused_by_name(setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting))):
        WorkerConfig(**setting)


def test_longest_send_is_below_the_lease() -> None:
    config = WorkerConfig(lease=timedelta(seconds=10))

    assert config.longest_send < config.lease


async def test_backoff_says_once_that_it_waits_and_once_that_it_is_over() -> None:
    facts: list[Fact] = []
    backoff = Backoff(Outage("worker", facts.append))
    stop = asyncio.Event()
    stop.set()

    for _ in range(3):
        await backoff.wait(StoreBusy("away"), stop)
    backoff.calm()
    backoff.calm()

    assert [type(fact) for fact in facts] == [DatabaseLost, DatabaseBack]


async def test_backoff_waits_longer_each_time_and_begins_anew_after_an_answer() -> None:
    backoff = Backoff(Outage("worker", lambda _: None))
    stop = asyncio.Event()
    stop.set()
    pauses = []
    for _ in range(8):
        pauses.append(backoff._pause)
        await backoff.wait(StoreBusy("away"), stop)
    backoff.calm()

    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (FIRST_SECONDS, LONGEST_SECONDS)
    assert backoff._pause == FIRST_SECONDS
