"""The daemon: a worker and its keeper in two threads, and how one's end is the other's."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import Delivered, Outcome
from sendonce.domain.policies import Policy
from sendonce.engine import daemon
from sendonce.engine.daemon import Parts
from sendonce.errors import ConfigError, StoreBusy, StoreError
from sendonce.observability.facts import Begun, Fact, LeasesLost, Settled, Stopped
from sendonce.store.ports import Store
from tests.engine.rig import QUICK, QUICK_CONFIG, Told, given_many, serving
from tests.processes import until
from tests.store.databases import Database, SqliteDatabase


def parts_of(
    open_store: Callable[[], Awaitable[Store]],
    channels: Channels,
    facts: list[Fact],
    policy: Policy = QUICK,
    **config: Any,
) -> Parts:
    return Parts(
        open_store=open_store,
        channels=channels,
        config=replace(QUICK_CONFIG, until_idle=True, **config),
        emit=facts.append,
        version="1",
        policy=policy,
    )


async def run(parts: Parts) -> Stopped:
    return await asyncio.wait_for(daemon.run(parts), 50)


async def test_daemon_works_until_idle_and_leaves_nothing_open(database: Database) -> None:
    given_many(database, 30)
    facts: list[Fact] = []

    stopped = await run(parts_of(database._connect, serving(Told(Delivered())), facts))

    assert stopped == Stopped(finished=30, in_doubt=0)
    assert isinstance(facts[0], Begun)
    assert facts[-1] == stopped
    [worker] = database.rows("workers")
    assert worker["stopped_at"] is not None
    assert database.one("select count(*) from sendonce_leases") == 0


async def test_channel_that_blocks_the_loop_for_longer_than_the_lease_keeps_its_leases(database: Database) -> None:
    given_many(database, 3)
    facts: list[Fact] = []
    lease = timedelta(seconds=8)

    def ends_at() -> Any:
        return database.one("select expires_at from sendonce_leases")

    async def block() -> Outcome:
        first = ends_at()
        until(lambda: ends_at() > first, "a renewal")
        database.advance(lease / 2)
        second = ends_at()
        until(lambda: ends_at() > second, "another one, after the lease would have ended without the first")
        return Delivered()

    channel = Told(block, Delivered())
    policy = replace(QUICK, timeout=timedelta(milliseconds=200))
    stopped = await run(parts_of(database._connect, serving(channel), facts, policy, lease=lease, concurrency=3))

    late = sum(fact.late for fact in facts if isinstance(fact, Settled))
    assert (late, stopped.in_doubt) == (0, 0)
    assert not [fact for fact in facts if isinstance(fact, LeasesLost)]
    assert len(channel.sent) == 3


class Broken:
    """A store whose lease keeping breaks for good when it is time."""

    def __init__(self, store: Store, error: Exception, is_time: Callable[[], bool]) -> None:
        self._store = store
        self._error = error
        self._is_time = is_time

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def expire(self, limit: int, decide: object) -> list[object]:
        if self._is_time():
            raise self._error
        return []


async def test_keeper_that_breaks_stops_the_worker_and_is_told(sqlite: SqliteDatabase) -> None:
    given_many(sqlite, 3)
    facts: list[Fact] = []
    opened = 0

    def is_done() -> bool:
        return sum(fact.completed for fact in facts if isinstance(fact, Settled)) == 3

    async def open_store() -> Store:
        nonlocal opened
        opened += 1
        store = await sqlite._connect()
        return store if opened == 1 else cast(Store, Broken(store, StoreError("no rights any more"), is_done))

    parts = replace(parts_of(open_store, serving(Told(Delivered())), facts), config=QUICK_CONFIG)

    with pytest.raises(StoreError, match="no rights"):
        await run(parts)
    assert isinstance(facts[-1], Stopped)
    assert facts[-1].finished == 3


async def test_keeper_that_cannot_begin_is_told_and_nothing_was_sent(sqlite: SqliteDatabase) -> None:
    given_many(sqlite, 3)
    channel = Told(Delivered())
    opened = 0

    async def open_store() -> Store:
        nonlocal opened
        opened += 1
        if opened > 1:
            raise StoreBusy("too many connections")
        return await sqlite._connect()

    with pytest.raises(StoreBusy, match="too many"):
        await run(parts_of(open_store, serving(channel), []))
    assert channel.sent == []


async def test_timeout_that_no_lease_could_hold_is_refused(sqlite: SqliteDatabase) -> None:
    policy = replace(QUICK, timeout=QUICK_CONFIG.lease)

    with pytest.raises(ConfigError, match="lease"):
        await run(parts_of(sqlite._connect, serving(Told(Delivered())), [], policy))


async def test_channels_own_timeout_is_held_to_the_lease(sqlite: SqliteDatabase) -> None:
    given_many(sqlite, 1)
    channel = Told(Delivered())

    await run(parts_of(sqlite._connect, serving(channel, timeout="1h"), []))

    assert channel.timeouts == [pytest.approx(48.0)]


async def test_channels_are_closed_at_the_end(sqlite: SqliteDatabase) -> None:
    closed: list[str] = []

    class Open(Told):
        async def close(self) -> None:
            closed.append("async")

    class OpenToo(Told):
        def close(self) -> None:
            closed.append("plain")

    channels = serving(Open(Delivered()))
    channels.add(OpenToo(Delivered()), "other")

    await run(parts_of(sqlite._connect, channels, []))

    assert closed == ["async", "plain"]
