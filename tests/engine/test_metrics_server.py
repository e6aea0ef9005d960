"""The worker's own pages, in the worker's own loop: what they say of one that begins, works, is stuck, and stops."""

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import Delivered, NotThere, Outcome, Unknown
from sendonce.engine import bounded_server, daemon, health, metrics_server
from sendonce.engine.bounded_server import MOST_VISITORS
from sendonce.engine.daemon import Parts
from sendonce.engine.metrics_server import Look
from sendonce.engine.worker import CLAIMS
from sendonce.errors import StoreBusy, StoreError
from sendonce.observability.facts import Begun, Fact, ServingMetrics, Settled, Stopped
from sendonce.store.ports import Store
from tests.engine.rig import QUICK, QUICK_CONFIG, Asked, Told, given_many, once, serving
from tests.processes import until_async
from tests.scrapes import OPENMETRICS, Answer, get, samples_of
from tests.store.databases import SqliteDatabase


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that stands still for a moment is no reason not to be ready here."""
    monkeypatch.setattr(metrics_server, "LOOK_SECONDS", 30.0)


class Running:
    """A daemon in this loop that listens on a free port."""

    def __init__(self, parts: Parts) -> None:
        self.facts: list[Fact] = []
        self.stop = asyncio.Event()
        parts = replace(parts, emit=self.facts.append, metrics=("127.0.0.1", 0))
        self.task = asyncio.create_task(daemon.run(parts, stop=self.stop))

    async def said(self, kind: type[Fact]) -> Any:
        await until_async(lambda: self.task.done() or self._of(kind), f"{kind.__name__}")
        return self._of(kind)[0]

    async def ask(self, path: str, **options: Any) -> Answer:
        address = (await self.said(ServingMetrics)).addresses[0]
        return await asyncio.to_thread(get, f"http://{address}{path}", **options)

    async def metrics(self) -> dict[str, float]:
        return samples_of((await self.ask("/metrics")).text)

    def _of(self, kind: type[Fact]) -> list[Fact]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


@asynccontextmanager
async def running(database: SqliteDatabase, channels: Channels, store: Any = None) -> AsyncIterator[Running]:
    open_store = store or database._connect
    here = Running(
        Parts(
            open_store=open_store,
            channels=channels,
            config=QUICK_CONFIG,
            emit=lambda _: None,
            version="1",
            policy=QUICK,
        )
    )
    try:
        yield here
    finally:
        here.stop.set()
        await asyncio.wait({here.task}, timeout=50)
        here.task.cancel()
        await asyncio.gather(here.task, return_exceptions=True)


class Changed:
    """A store of which some calls are replaced."""

    def __init__(self, store: Store, **calls: Any) -> None:
        self._store = store
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return self._calls.get(name) or getattr(self._store, name)


async def test_worker_at_work_is_live_and_ready(sqlite: SqliteDatabase) -> None:
    async with running(sqlite, serving(Told(Delivered()))) as here:
        await here.said(Begun)

        live, ready = await here.ask("/livez"), await here.ask("/readyz")

        assert (live.status, live.text) == (200, "the worker goes round\n")
        assert (ready.status, ready.text) == (200, "the worker takes work\n")


async def test_metrics_server_refuses_other_paths_and_methods(sqlite: SqliteDatabase) -> None:
    async with running(sqlite, serving(Told(Delivered()))) as here:
        assert (await here.ask("/")).status == 404
        assert (await here.ask("/metrics/x")).status == 404
        for path in ("/metrics", "/livez", "/readyz"):
            assert (await here.ask(path, method="HEAD")).status in (200, 503)
            for method in ("POST", "PUT", "DELETE"):
                assert (await here.ask(path, method=method)).status == 405


async def test_metrics_come_in_the_format_that_is_asked_for(sqlite: SqliteDatabase) -> None:
    async with running(sqlite, serving(Told(Delivered()))) as here:
        plain, openmetrics = await here.ask("/metrics"), await here.ask("/metrics", accept=OPENMETRICS)

        assert plain.type.startswith("text/plain; version=0.0.4; charset=utf-8")
        assert openmetrics.type.startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
        assert openmetrics.text.endswith("# EOF\n")


async def test_metrics_count_what_was_done_and_how_long_it_took(sqlite: SqliteDatabase) -> None:
    given_many(sqlite, 30)
    async with running(sqlite, serving(Told(Delivered()))) as here:
        await until_async(lambda: sum(f.completed for f in here.facts if isinstance(f, Settled)) == 30, "all is sent")

        found = await here.metrics()

        assert found['sendonce_attempts_total{channel="test",outcome="Delivered"}'] == 30
        assert found['sendonce_attempt_seconds_count{channel="test"}'] == 30
        assert found['sendonce_results_total{result="completed"}'] == 30
        assert found["sendonce_settle_seconds_count"] >= 3
        assert (found["sendonce_worker_in_flight"], found["sendonce_worker_slots"]) == (0, 10)
        assert found["sendonce_database_answers"] == 1


async def test_metrics_count_look_ups_by_their_answers(sqlite: SqliteDatabase) -> None:
    given_many(sqlite, 1)
    channel = Asked(Unknown("timeout"), Delivered("n-1"), answers=[NotThere()])
    async with running(sqlite, serving(channel)) as here:
        await until_async(lambda: any(f.completed for f in here.facts if isinstance(f, Settled)), "it is sent")

        found = await here.metrics()

        assert found['sendonce_look_ups_total{answer="not_found"}'] == 1
        assert found['sendonce_attempts_total{channel="test",outcome="Unknown"}'] == 1
        assert found["sendonce_doubts_total"] == 1


async def test_metrics_server_is_not_ready_before_registration(sqlite: SqliteDatabase) -> None:
    opened = asyncio.Event()

    async def open_store() -> Store:
        await opened.wait()
        return await sqlite._connect()

    async with running(sqlite, serving(Told(Delivered())), open_store) as here:
        before = await here.ask("/readyz")
        assert (before.status, before.text) == (503, "the worker is not registered yet\n")
        assert (await here.ask("/livez")).status == 200
        assert not any("info" in name or "deliveries" in name for name in await here.metrics())

        opened.set()
        await here.said(Begun)

        assert (await here.ask("/readyz")).status == 200


async def test_metrics_server_is_live_and_not_ready_while_stopping(sqlite: SqliteDatabase) -> None:
    given_many(sqlite, 1)
    over = asyncio.Event()
    channel = Told(once(over, Delivered()))
    async with running(sqlite, serving(channel)) as here:
        await until_async(lambda: channel.sent, "a send")
        here.stop.set()
        await asyncio.sleep(0)

        ready = await here.ask("/readyz")
        assert (ready.status, ready.text) == (503, "the worker is stopping\n")
        assert (await here.ask("/livez")).status == 200
        assert (await here.metrics())["sendonce_worker_in_flight"] == 1
        over.set()

        assert isinstance(await here.said(Stopped), Stopped)
        await here.task
        with pytest.raises(OSError, match="refused"):
            await here.ask("/livez")


async def test_claim_loop_that_is_stuck_is_told(sqlite: SqliteDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "STUCK_SECONDS", 1.0)
    monkeypatch.setattr("sendonce.engine.worker.TURN_SECONDS", 0.05)
    over = asyncio.Event()

    async def stuck(*_: object) -> object:
        await over.wait()
        raise StoreBusy("it was stuck")

    async def open_store() -> Store:
        return cast(Store, Changed(await sqlite._connect(), start=stuck))

    async with running(sqlite, serving(Told(Delivered())), open_store) as here:
        await here.said(Begun)
        answer = await here.ask("/livez")
        # On a busy machine another loop may be late for a moment, and be told first.
        while not answer.text.startswith("worker: its loop has not gone round for"):
            answer = await here.ask("/livez")
        over.set()

        assert answer.status == 503


async def test_worker_whose_slots_are_all_busy_is_not_stuck(
    sqlite: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop goes round while it waits for a slot, however long that takes."""
    monkeypatch.setattr("sendonce.engine.worker.TURN_SECONDS", 0.05)
    turns: list[str] = []
    turn = health.Health.turn

    def counted(self: health.Health, part: str) -> None:
        turns.append(part)
        turn(self, part)

    monkeypatch.setattr(health.Health, "turn", counted)
    given_many(sqlite, 20)
    may_end = asyncio.Event()
    channel = Told(once(may_end, Delivered()))
    async with running(sqlite, serving(channel, timeout="1h")) as here:
        await until_async(lambda: channel.sending == 10, "all slots are busy")
        turns.clear()
        await until_async(lambda: turns.count(CLAIMS) > 3, "the loop goes round")

        assert channel.sending == 10
        assert (await here.ask("/livez")).status == 200
        may_end.set()


async def test_claim_loop_that_has_died_is_told_while_the_rest_finishes(sqlite: SqliteDatabase) -> None:
    given_many(sqlite, 1)
    begun, told = asyncio.Event(), asyncio.Event()

    async def open_store() -> Store:
        store = await sqlite._connect()

        async def start(*arguments: Any) -> Any:
            if begun.is_set():
                raise StoreError("no rights any more")
            return await store.start(*arguments)

        return cast(Store, Changed(store, start=start))

    async def wait() -> Outcome:
        begun.set()
        await told.wait()
        return Delivered()

    async with running(sqlite, serving(Told(wait)), open_store) as here:
        await begun.wait()
        while (answer := await here.ask("/livez")).status == 200:
            continue
        told.set()

        assert answer == Answer(503, answer.type, "worker: its loop has ended with an error\n")
        with pytest.raises(StoreError, match="no rights"):
            await here.task


async def test_database_that_was_not_heard_is_asked_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [1000.0]
    monkeypatch.setattr(metrics_server, "time", SimpleNamespace(monotonic=lambda: times[-1]))
    asked = []
    failure: list[Exception] = []

    async def ask() -> None:
        asked.append(times[-1])
        if failure:
            raise failure[-1]

    look = Look(ask)
    assert all(await asyncio.gather(look.is_answered(), look.is_answered()))
    times.append(1000.9)
    failure.append(StoreBusy("no"))
    assert await look.is_answered()

    times.append(1001.0)

    assert not await look.is_answered()
    assert asked == [1000.0, 1001.0]


async def test_metrics_server_never_waits_for_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "LOOK_SECONDS", 0.05)
    asked = []
    answered = asyncio.Event()

    async def ask() -> None:
        asked.append(1)
        await answered.wait()

    look = Look(ask)
    assert not await look.is_answered()
    assert not await look.is_answered()
    monkeypatch.setattr(metrics_server, "LOOK_SECONDS", 30.0)
    answered.set()

    assert await look.is_answered()
    assert len(asked) == 1
    look.close()


async def test_metrics_server_gives_silent_visitors_few_descriptors(
    sqlite: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whoever asks is answered meanwhile, and what is sent is sent. None is shown out for staying long."""
    monkeypatch.setattr(bounded_server, "VISIT_SECONDS", 600.0)
    given_many(sqlite, 30)
    async with running(sqlite, serving(Told(Delivered()))) as here:
        host, port = (await here.said(ServingMetrics)).addresses[0].split(":")
        before = len(os.listdir("/proc/self/fd"))
        with ExitStack() as visitors:
            shown_out = select.poll()
            for _ in range(400):
                visitor = visitors.enter_context(socket.socket())
                visitor.setblocking(False)
                await asyncio.get_running_loop().sock_connect(visitor, (host, int(port)))
                visitor.send(b"GET /metrics HTTP/1.1\r\nHost: ")
                shown_out.register(visitor, select.POLLIN)
            await until_async(lambda: len(shown_out.poll(0)) == 400 - MOST_VISITORS, "the others are shown out")
            # The visitors live in this process too, and so do the worker's connections.
            assert len(os.listdir("/proc/self/fd")) - before < 400 + 2 * MOST_VISITORS
            live = await here.ask("/livez")
        await until_async(lambda: sum(f.completed for f in here.facts if isinstance(f, Settled)) == 30, "all is sent")

    assert live.status == 200


async def test_visitor_is_shown_out_after_a_while(sqlite: SqliteDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "VISIT_SECONDS", 0.05)
    async with running(sqlite, serving(Told(Delivered()))) as here:
        host, port = (await here.said(ServingMetrics)).addresses[0].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /metrics HTTP/1.1\r\nX-Slow: ")

        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()


async def test_metrics_server_answers_one_request_for_each_visit(sqlite: SqliteDatabase) -> None:
    async with running(sqlite, serving(Told(Delivered()))) as here:
        host, port = (await here.said(ServingMetrics)).addresses[0].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()

    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in answer
