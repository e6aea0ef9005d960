"""A web server that takes few visitors at once, none for long. Needs aiohttp; imported where metrics are served.

Whoever opens connections and says nothing takes descriptors that sends need. So the one that has been there for longest
makes room for the next one, and each is shown out after a while: an honest one has asked and gone by then.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

MOST_VISITORS = 64
VISIT_SECONDS = 5.0
# Connections that are taken from the system at once: each costs a descriptor before it is counted here.
BACKLOG = 32

Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class BoundedServer(web.Server):
    """Limits how many connections there are, and how long each lasts."""

    def __init__(self, answer: Answering) -> None:
        super().__init__(answer, access_log=None)
        self._visits: dict[RequestHandler, tuple[asyncio.Transport, asyncio.TimerHandle]] = {}

    @property
    def visitors(self) -> int:
        return len(self._visits)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        if len(self._visits) >= MOST_VISITORS:
            self._show_out(next(iter(self._visits)))
        leaving = asyncio.get_running_loop().call_later(VISIT_SECONDS, self._show_out, handler)
        self._visits[handler] = transport, leaving
        super().connection_made(handler, transport)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        visit = self._visits.pop(handler, None)
        if visit is not None:
            visit[1].cancel()
        super().connection_lost(handler, exc)

    def _show_out(self, handler: RequestHandler) -> None:
        transport, leaving = self._visits.pop(handler)
        leaving.cancel()
        transport.abort()
