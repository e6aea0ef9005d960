"""A receiver that remembers every request: a real HTTP server on loopback, in a thread of its own."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple, Self

from aiohttp import web

from tests.processes import SECONDS

_LOOK_SECONDS = 0.01


class Arrival(NamedTuple):
    """One request, whole: what it was for, and when it came."""

    path: str
    token: str
    attempt: int
    body: bytes
    at: float


Answer = Callable[[Arrival], web.Response]


class Receiver:
    """Counts what really arrived. `delay` is how long it thinks before it answers, which it does not while `is_held`,
    nor when it has answered as many as `most`.

    `answered` names what it has said yes to while the sender was still there: nobody may call anything else delivered.
    """

    def __init__(self, *, delay: float = 0.0, answer: Answer | None = None) -> None:
        self.delay = delay
        self.is_held = False
        self.most: int | None = None
        self.answer = answer or (lambda arrival: web.Response(text="ok"))
        self.arrivals: list[Arrival] = []
        self.answered: set[str] = set()
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ended: asyncio.Event | None = None
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.result(timeout=SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        ended = self._ended
        if ended is not None:
            self._loop.call_soon_threadsafe(ended.set)
        self._thread.join(timeout=SECONDS)

    def times(self) -> Counter[str]:
        """How often each path was reached."""
        return Counter(arrival.path for arrival in list(self.arrivals))

    def tokens(self) -> dict[str, set[str]]:
        """Which tokens each path was reached with."""
        found: dict[str, set[str]] = {}
        for arrival in list(self.arrivals):
            found.setdefault(arrival.path, set()).add(arrival.token)
        return found

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._ready.set_exception(error)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._ended = asyncio.Event()
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        [(host, port)] = [address[:2] for address in runner.addresses]
        self.url = f"http://{host}:{port}"
        self._ready.set_result(None)
        await self._ended.wait()
        await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        arrival = Arrival(
            request.path,
            request.headers.get("Idempotency-Key", ""),
            int(request.headers.get("Sendonce-Attempt", "0")),
            await request.read(),
            time.monotonic(),
        )
        self.arrivals.append(arrival)
        if self.delay:
            await asyncio.sleep(self.delay)
        while self.is_held or (self.most is not None and len(self.answered) >= self.most):
            await asyncio.sleep(_LOOK_SECONDS)
        if request.transport is not None and not request.transport.is_closing():
            self.answered.add(arrival.path)
        return self.answer(arrival)
