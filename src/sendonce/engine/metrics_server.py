"""A process's own small web server: its metrics and health, and the database's gauges on one of all workers."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from sendonce.engine.background import Troubles
from sendonce.engine.health import Health
from sendonce.engine.worker import Worker
from sendonce.errors import ConfigError
from sendonce.observability import metrics
from sendonce.observability.facts import Emit, MetricsFailed, ServingMetrics
from sendonce.observability.metrics import CAUSES, OTHER, Measured, alone
from sendonce.store.ports import AlertStore, LeaseStore, Store
from sendonce.store.readers import ReadStore
from sendonce.store.records import ChannelRow, Status
from sendonce.store.upkeep import Reached, Stage

if TYPE_CHECKING:
    from aiohttp import web

CHECK_SECONDS = 1.0
READ_SECONDS = 15.0
# Below the time after which the others take a worker for dead: then one of them serves these.
CONFIRMED_SECONDS = 10.0
STALE_SECONDS = 45.0
NOTHING_GOES: Mapping[Stage, timedelta] = {}


class GaugeStore(LeaseStore, ReadStore, AlertStore, Protocol):
    """What gauges are read from."""


class _Reading(NamedTuple):
    at: float
    status: Status
    channels: Sequence[ChannelRow]
    retention: Sequence[Reached]


class Gauges:
    """Asks every second whether this worker is the eldest that serves metrics; if so, reads now and then.

    `schemes`: those that this worker has a channel for; `kept`: for how long each part of retention keeps things.
    """

    def __init__(
        self,
        store: GaugeStore,
        worker_id: int,
        emit: Emit,
        schemes: Collection[str] = (),
        kept: Mapping[Stage, timedelta] = NOTHING_GOES,
    ) -> None:
        self._schemes = frozenset(schemes)
        self._kept = {stage.value: age for stage, age in kept.items()}
        self._store = store
        self._worker_id = worker_id
        self._emit = emit
        self._confirmed_at = float("-inf")
        self._reading: _Reading | None = None
        self._troubles = Troubles(lambda trouble: emit(MetricsFailed(reason=trouble)))

    async def run(self) -> None:
        """Look until cancelled. Nothing here can stop the worker."""
        while True:
            await self._troubles.survive(self.look)
            await asyncio.sleep(CHECK_SECONDS)

    async def look(self) -> None:
        """Look once."""
        begun = time.monotonic()
        if not await self._store.is_eldest(self._worker_id):
            self._reading = None
            return
        self._confirmed_at = begun
        if self._reading is None or begun - self._reading.at >= READ_SECONDS:
            self._reading = _Reading(
                begun,
                await self._store.status(),
                await self._store.open_channels(),
                await self._store.retention_reached(),
            )

    def measured(self) -> list[Measured]:
        """Return what was read; nothing when another worker reports it, or when it is too old."""
        now = time.monotonic()
        if self._reading is None or now - self._confirmed_at > CONFIRMED_SECONDS:
            return []
        if now - self._reading.at > STALE_SECONDS:
            return []
        return [*_measured(self._reading.status), *self._by_channel(self._reading), self._behind(self._reading)]

    def _by_channel(self, reading: _Reading) -> list[Measured]:
        ages: dict[tuple[str, ...], float] = {(scheme,): 0.0 for scheme in (*self._schemes, OTHER)}
        breakers = dict.fromkeys(ages, 0.0)
        for row in reading.channels:
            label = (row.scheme if row.scheme in self._schemes else OTHER,)
            ages[label] = max(ages[label], _age(reading.status, row.oldest_open_at).total_seconds())
            breakers[label] += row.breakers
        return [(metrics.OLDEST_OPEN, ages), (metrics.BREAKERS, breakers)]

    def _behind(self, reading: _Reading) -> Measured:
        """What nobody wants to go is not behind."""
        return metrics.RETENTION_BEHIND, {
            (each.part,): each.behind(reading.status.now, self._kept[each.part]).total_seconds()
            for each in reading.retention
            if each.part in self._kept
        }


def _measured(status: Status) -> list[Measured]:
    values = {
        metrics.OLDEST_DUE: _age(status, status.oldest_due_at).total_seconds(),
        metrics.DUE: status.due,
        metrics.SCHEDULED: status.scheduled,
        metrics.RETRYING: status.retrying,
        metrics.BEING_SENT: status.in_flight,
        metrics.IN_DOUBT: status.in_doubt,
        # Without names: others choose schemes. The alert, `status` and `doctor` have them.
        metrics.NOT_SERVED: sum(room.waiting for room in status.rooms if not room.is_served),
        metrics.DEAD_LETTERS: status.dead_letters,
        metrics.INBOX_WAITING: status.inbox.waiting,
        metrics.INBOX_DEAD: status.inbox.dead,
        metrics.INBOX_OLDEST: _since(status, status.inbox.oldest_due_at).total_seconds(),
        metrics.INBOX_DUPLICATES: status.inbox.duplicates,
        metrics.WORKERS: len(status.workers),
        metrics.STOPS: len(status.stops),
        metrics.ALERTS: len(status.alerts),
        metrics.SCHEMA: status.schema_version,
    }
    parked: dict[tuple[str, ...], float] = {(cause,): 0 for cause in CAUSES}
    parked |= {(cause,): count for cause, count in status.parked_by}
    return [
        (metrics.PARKED, parked),
        *((metric, alone(value)) for metric, value in values.items()),
    ]


def _age(status: Status, since: datetime | None) -> timedelta:
    """A stop of everything lets work grow old on purpose; what else people hold back is not read."""
    if any(stop.scope == "all" for stop in status.stops):
        return timedelta(0)
    return _since(status, since)


def _since(status: Status, since: datetime | None) -> timedelta:
    return timedelta(0) if since is None else max(status.now - since, timedelta(0))


Address: TypeAlias = tuple[str, int]

LOOK_SECONDS = 0.7
LOOK_AGAIN_SECONDS = 1.0
CLOSE_SECONDS = 1.0


class Look:
    """Asks whether the database answers, at most once a second. A caller never waits long."""

    def __init__(self, ask: Callable[[], Awaitable[object]]) -> None:
        self._ask = ask
        self._asking: asyncio.Future[object] | None = None
        self._begun = 0.0

    async def is_answered(self) -> bool:
        """Return whether the database answers now. A query that is late stays open, and is not repeated."""
        now = time.monotonic()
        if self._asking is None or (self._asking.done() and now - self._begun >= LOOK_AGAIN_SECONDS):
            self._asking = asyncio.ensure_future(self._ask())
            self._begun = now
        done, _ = await asyncio.wait({self._asking}, timeout=LOOK_SECONDS)
        return bool(done) and not self._asking.cancelled() and self._asking.exception() is None

    def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()


Measuring: TypeAlias = Callable[[], list[Measured]]


class MetricsPage:
    """The pages of the server: what was `counted`, and what the process itself reads; it sets the rest once it runs."""

    def __init__(self, health: Health, counted: Measuring, own: Measuring) -> None:
        self._health = health
        self._counted = counted
        self.own = own
        self.look: Look | None = None
        self.of_database: Measuring = list

    async def answer(self, request: "web.BaseRequest") -> "web.Response":
        """Answer one request and close the connection: the next visitor may be waiting for it."""
        from aiohttp import web

        page = {"/metrics": self._metrics, "/livez": self._live, "/readyz": self._ready}.get(request.path)
        if page is None:
            response = web.Response(status=404, text="there are /metrics, /livez and /readyz\n")
        elif request.method not in ("GET", "HEAD"):
            response = web.Response(status=405, text="only GET\n", headers={"Allow": "GET, HEAD"})
        else:
            response = await page(request)
        response.force_close()
        return response

    async def _metrics(self, request: "web.BaseRequest") -> "web.Response":
        from aiohttp import web

        answers: Measured = (metrics.ANSWERS, alone(0 if self._health.has_lost_the_database else 1))
        measured = [*self._counted(), *self.own(), answers, *self.of_database()]
        text, content_type = metrics.exposition(measured, ",".join(request.headers.getall("Accept", [])))
        return web.Response(body=text, headers={"Content-Type": content_type})

    async def _live(self, request: "web.BaseRequest") -> "web.Response":
        return _answer(self._health.stuck(), f"the {self._health.what} goes round")

    async def _ready(self, request: "web.BaseRequest") -> "web.Response":
        trouble = self._health.unready()
        if trouble is None and not self._health.has_heard_lately and not (self.look and await self.look.is_answered()):
            trouble = "the database does not answer"
        return _answer(trouble, f"the {self._health.what} takes work")


@asynccontextmanager
async def attended(
    page: MetricsPage,
    open_store: Callable[[], Awaitable[Store]],
    worker: Worker,
    worker_id: int,
    emit: Emit,
    schemes: Collection[str],
    kept: Mapping[Stage, timedelta],
) -> AsyncIterator[None]:
    """Read gauges through connections of their own, so that no send waits for a count."""
    store = await open_store()
    gauges = Gauges(store, worker_id, emit, schemes, kept)
    page.look = look = Look(store.namespace)
    page.own = lambda: [(metrics.IN_FLIGHT, alone(worker.in_flight))]
    page.of_database = gauges.measured
    reading = asyncio.create_task(gauges.run())
    try:
        yield
    finally:
        reading.cancel()
        look.close()
        await asyncio.wait({reading}, timeout=CLOSE_SECONDS)  # a database that does not answer must not hold us
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await store.close()


@asynccontextmanager
async def serving(address: Address | None, page: MetricsPage, emit: Emit) -> AsyncIterator[None]:
    """Serve the pages while the worker runs; ConfigError at the start when that is not possible."""
    if address is None:
        yield
        return
    if find_spec("aiohttp") is None or find_spec("prometheus_client") is None:
        raise ConfigError("--metrics needs: pip install 'sendonce[metrics]'")
    from aiohttp import web

    from sendonce.engine.bounded_server import BACKLOG, BoundedServer

    runner = web.ServerRunner(BoundedServer(page.answer), shutdown_timeout=CLOSE_SECONDS)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, *address, backlog=BACKLOG).start()
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise ConfigError(f"cannot listen on {_spelled(*address)} ({why}); choose another address") from None
        emit(ServingMetrics(addresses=tuple(_spelled(host, port) for host, port, *_ in runner.addresses)))
        yield
    finally:
        await runner.cleanup()


def _spelled(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _answer(trouble: str | None, well: str) -> "web.Response":
    from aiohttp import web

    return web.Response(status=503 if trouble else 200, text=f"{trouble or well}\n")
