"""A worker whose database was away: it asks first what is there now, and waits where the server was started anew."""

import asyncio
from typing import Any

import pytest

from sendonce.domain.outcomes import Delivered
from sendonce.engine import worker as module
from sendonce.engine.memory import Memory
from sendonce.errors import StoreBusy
from sendonce.observability.facts import ServerChanged
from sendonce.store.ports import Store
from tests.engine.faults import Faulty, faulty
from tests.engine.rig import Told, given_many, serving, working
from tests.processes import until_async
from tests.store.databases import Database

SERVER = ("system", "1", "started at noon")
STARTED_ANEW = ("system", "1", "started at one")
PROMOTED = ("system", "2", "started at one")
FOR_EVER = 3600.0


def away_once(store: Store, server: tuple[str, str, str]) -> tuple[Faulty, Store]:
    """A store whose first claim fails and which is on this server then."""
    made, ours = faulty(store)
    made.before["start"] = [StoreBusy("away")]

    async def say(*args: Any) -> tuple[str, str, str]:
        return server

    async def refusal(*args: Any) -> Any:
        made._begin("refusal")
        return await store.refusal(*args)

    vars(made).update(server=say, refusal=refusal)
    return made, ours


def remembering() -> Memory:
    memory = Memory()
    memory.see(SERVER)
    return memory


def standing_back(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a worker stands back; from then on it waits until it is told to stop."""
    monkeypatch.setattr(module, "STAND_BACK_SECONDS", FOR_EVER)
    waits, stand_back = asyncio.Event(), module.Worker._stand_back

    async def told(worker: module.Worker) -> None:
        waits.set()
        await stand_back(worker)

    monkeypatch.setattr(module.Worker, "_stand_back", told)
    return waits


@pytest.mark.parametrize("server", [STARTED_ANEW, PROMOTED])
async def test_worker_waits_with_claims_after_a_restart_of_the_server(
    database: Database, store: Store, server: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given_many(database, 3)
    channel = Told(Delivered())
    made, ours = away_once(store, server)
    waits = standing_back(monkeypatch)

    async with working(ours, serving(channel), memory=remembering()) as here:
        await asyncio.wait_for(waits.wait(), 50)
        await here.stopped()

    assert made.calls == ["start", "refusal"]
    assert channel.sent == []
    assert len(here.said(ServerChanged)) == (server is PROMOTED)


async def test_worker_still_waits_when_the_database_goes_away_again(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then it is where it was at the last look; that it was started anew in between is not forgotten."""
    given_many(database, 3)
    channel = Told(Delivered())
    made, ours = away_once(store, STARTED_ANEW)
    made.before["refusal"] = [StoreBusy("away again")]
    waits = standing_back(monkeypatch)

    async with working(ours, serving(channel), memory=remembering()) as here:
        await asyncio.wait_for(waits.wait(), 50)
        await here.stopped()

    assert made.calls == ["start", "refusal", "refusal"]
    assert channel.sent == []


@pytest.mark.parametrize(("server", "wait"), [(STARTED_ANEW, 0.01), (SERVER, FOR_EVER)], ids=["waited", "the same"])
async def test_worker_goes_on_when_it_has_waited_or_need_not(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch, server: tuple[str, str, str], wait: float
) -> None:
    monkeypatch.setattr(module, "STAND_BACK_SECONDS", wait)
    given_many(database, 3)
    channel = Told(Delivered())
    made, ours = away_once(store, server)

    async with working(ours, serving(channel), memory=remembering()) as here:
        await until_async(lambda: len(channel.sent) == 3, "three sent")
        await here.stopped()

    assert made.calls[:3] == ["start", "refusal", "start"]
    assert here.said(ServerChanged) == []
