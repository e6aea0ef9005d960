"""The worker's own small web server.

GET /metrics  what it has done, for Prometheus; and the state of the database, if it is the one to say
GET /livez    200 while its loops go round, whatever the database does
GET /readyz   200 while it takes work: registered, not stopping, and the database answers
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from sendonce.engine.gauges import Gauges
from sendonce.engine.health import Health
from sendonce.engine.worker import Worker
from sendonce.errors import ConfigError
from sendonce.observability import metrics
from sendonce.observability.facts import Emit, ServingMetrics
from sendonce.observability.metrics import Counters, Measured, alone
from sendonce.store.ports import Store
from sendonce.store.upkeep import Stage

if TYPE_CHECKING:
    from aiohttp import web

Address: TypeAlias = tuple[str, int]

LOOK_SECONDS = 0.7
LOOK_AGAIN_SECONDS = 1.0
CLOSE_SECONDS = 1.0


class Look:
    """Asks the database itself, at most once a second; who asks here never waits long, and nobody twice at once."""

    def __init__(self, ask: Callable[[], Awaitable[object]]) -> None:
        self._ask = ask
        self._asking: asyncio.Future[object] | None = None
        self._begun = 0.0

    async def is_answered(self) -> bool:
        """Whether it answers now. A question that gets no answer in time stays open, and is not asked again."""
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


class Page:
    """What the server shows. The worker fills in what is known once it is there."""

    def __init__(self, vitals: Health, tallies: Counters) -> None:
        self._vitals = vitals
        self._tallies = tallies
        self.look: Look | None = None
        self.in_flight: Callable[[], int] = lambda: 0
        self.of_database: Callable[[], list[Measured]] = list

    async def answer(self, request: "web.BaseRequest") -> "web.Response":
        """What is asked for, and no more on this connection: the next one may be waiting for it."""
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

        own: list[Measured] = [
            (metrics.IN_FLIGHT, alone(self.in_flight())),
            (metrics.ANSWERS, alone(0 if self._vitals.has_lost_the_database else 1)),
        ]
        measured = [*self._tallies.measured(), *own, *self.of_database()]
        text, content_type = metrics.exposition(measured, ",".join(request.headers.getall("Accept", [])))
        return web.Response(body=text, headers={"Content-Type": content_type})

    async def _live(self, request: "web.BaseRequest") -> "web.Response":
        return _answer(self._vitals.stuck(), "the worker goes round")

    async def _ready(self, request: "web.BaseRequest") -> "web.Response":
        trouble = self._vitals.unready()
        if trouble is None and not self._vitals.has_heard_lately and not (self.look and await self.look.is_answered()):
            trouble = "the database does not answer"
        return _answer(trouble, "the worker takes work")


@asynccontextmanager
async def attended(
    page: Page,
    open_store: Callable[[], Awaitable[Store]],
    worker: Worker,
    worker_id: int,
    emit: Emit,
    schemes: Collection[str],
    kept: Mapping[Stage, timedelta],
) -> AsyncIterator[None]:
    """Look at the database for whoever asks, through connections of its own: no send waits for a count."""
    store = await open_store()
    gauges = Gauges(store, worker_id, emit, schemes, kept)
    page.look = look = Look(store.namespace)
    page.in_flight = lambda: worker.in_flight
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
async def serving(address: Address | None, page: Page, emit: Emit) -> AsyncIterator[None]:
    """Serve the page while the worker works; ConfigError, before anything else was done, when that cannot be."""
    if address is None:
        yield
        return
    if find_spec("aiohttp") is None or find_spec("prometheus_client") is None:
        raise ConfigError("--metrics needs: pip install 'sendonce[metrics]'")
    from aiohttp import web

    from sendonce.engine.door import BACKLOG, Door

    runner = web.ServerRunner(Door(page.answer), shutdown_timeout=CLOSE_SECONDS)
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
