"""How long a part of a worker waits for a database that does not answer."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from sendonce.engine import background as module
from sendonce.engine.background import FIRST_SECONDS, LONGEST_SECONDS, Backoff, Outage
from sendonce.errors import ServerReadOnly, StoreBusy
from sendonce.observability.facts import DatabaseBack, DatabaseLost, Fact


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each wait would have been. Nobody waits: who is to stop does not."""
    asked: list[float] = []

    def timeout(seconds: float) -> Any:
        asked.append(seconds)
        return asyncio.timeout(None)

    monkeypatch.setattr(module, "asyncio", SimpleNamespace(timeout=timeout, Event=asyncio.Event))
    return asked


async def waited(backoff: Backoff, times: int, error: StoreBusy) -> None:
    stop = asyncio.Event()
    stop.set()
    for _ in range(times):
        await backoff.wait(error, stop)


async def test_wait_is_longer_up_to_the_longest_and_the_next_outage_begins_with_the_first(
    pauses: list[float],
) -> None:
    backoff = Backoff(Outage("claims", lambda _: None))

    await waited(backoff, 7, StoreBusy("away"))
    backoff.calm()
    await waited(backoff, 2, StoreBusy("away"))

    assert pauses == [*(min(FIRST_SECONDS * 2**n, LONGEST_SECONDS) for n in range(7)), FIRST_SECONDS, FIRST_SECONDS * 2]
    assert pauses[6] == LONGEST_SECONDS


@pytest.mark.usefixtures("pauses")
async def test_outage_is_told_once_and_once_more_where_the_server_only_reads() -> None:
    facts: list[Fact] = []
    backoff = Backoff(Outage("claims", facts.append))

    for _ in range(2):
        await waited(backoff, 3, StoreBusy("away"))
        await waited(backoff, 3, ServerReadOnly("it only reads"))
        assert backoff.is_needed
        backoff.calm()
        backoff.calm()

    told = [DatabaseLost(part="claims", reason=reason) for reason in ("away", "it only reads")]
    assert [fact for fact in facts if isinstance(fact, DatabaseLost)] == told * 2
    assert [type(fact) for fact in facts] == [DatabaseLost, DatabaseLost, DatabaseBack] * 2
    assert not backoff.is_needed
