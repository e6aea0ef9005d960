"""A store on a test's connection, whose time stands still."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sendonce.store import callers
from sendonce.store.ports import Store
from sendonce.testing.clock import Clock


@dataclass(slots=True)
class Opened:
    """A store on somebody's connection. What it takes for the time is `now`, which stands still."""

    store: Store
    lane: callers.CallersConnection
    now: datetime


@asynccontextmanager
async def opened(connection: Any, clock: Clock) -> AsyncIterator[Opened]:
    """The store, with its tables made where they are missing; ConfigError for what the engine cannot run on."""
    lane = await callers.on(connection, clock=lambda: found.now)
    found = Opened(lane.store, lane, clock.now())
    found.now = clock.now(at_least=await lane.server_time())
    await lane.make_tables()
    yield found
