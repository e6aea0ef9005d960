"""A way between the services that loses some of what goes over it, as a network does."""

from collections.abc import Callable
from enum import StrEnum
from typing import Self

import aiohttp
from aiohttp import web


class Loss(StrEnum):
    """What happens to one report. `after`: it has arrived, and its answer is lost."""

    NONE = "none"
    BEFORE = "before"
    AFTER = "after"
    REFUSED = "refused"


class LossyWay:
    """Listens on a port of its own and passes on what comes, but for what `choose` says is lost."""

    def __init__(self, choose: Callable[[], Loss]) -> None:
        self.target = ""
        self.lost: dict[Loss, int] = dict.fromkeys(Loss, 0)
        self._choose = choose
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0][:2])
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        loss = self._choose() if request.method == "PUT" else Loss.NONE
        self.lost[loss] += 1
        if loss is Loss.REFUSED:
            return web.json_response({"error": "not now"}, status=503)
        if loss is Loss.BEFORE:
            return self._cut(request)
        answer = await self._ask(request)
        return self._cut(request) if loss is Loss.AFTER else answer

    async def _ask(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None, "inside the block"  # noqa: S101
        headers = {name: request.headers[name] for name in ("authorization", "content-type") if name in request.headers}
        try:
            async with self._session.request(
                request.method, self.target + request.path_qs, data=await request.read(), headers=headers
            ) as answer:
                return web.Response(status=answer.status, body=await answer.read(), content_type="application/json")
        except aiohttp.ClientError:
            return web.json_response({"error": "the other side is away"}, status=503)

    def _cut(self, request: web.Request) -> web.StreamResponse:
        """Close the connection without an answer."""
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)
