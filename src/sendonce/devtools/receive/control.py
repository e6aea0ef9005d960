"""The control API, on a port of its own that answers whatever the receiver is told to do.

PUT    /behaviour    {"fail": "503:0.2", "path": "/orders"}: from now on; without a path, everywhere
                     {"closed": true}: refuse connections, and cut those that are open; {"forget": true}
GET    /received     what it really has, by message and by path
GET    /last         the last of what arrived, whole
DELETE /received     count from zero
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import web

from sendonce.devtools.receive.desk import Desk
from sendonce.devtools.receive.lines import as_json
from sendonce.errors import ConfigError

Close: TypeAlias = Callable[[bool], Awaitable[None]]


class Control:
    """Changes the desk's rules and shows its memory. `close` shuts or opens the receiver's door."""

    def __init__(self, desk: Desk, close: Close) -> None:
        self._desk = desk
        self._close = close

    def application(self) -> web.Application:
        made = web.Application()
        made.router.add_put("/behaviour", self._behave)
        made.router.add_get("/received", self._received)
        made.router.add_get("/last", self._last)
        made.router.add_delete("/received", self._clear)
        return made

    async def _behave(self, request: web.Request) -> web.Response:
        try:
            settings = await request.json()
            if not isinstance(settings, dict):
                raise ConfigError("say what to change as a JSON object")
            path, is_closed, is_forgetful = (settings.pop(name, None) for name in ("path", "closed", "forget"))
            self._desk.rules.change(settings, path or "")
        except (ConfigError, ValueError) as error:
            return web.json_response({"error": str(error)}, status=400)
        if is_forgetful is not None:
            self._desk.memory.be_forgetful(bool(is_forgetful))
        if is_closed is not None:
            await self._close(bool(is_closed))
        return web.json_response({})

    async def _received(self, request: web.Request) -> web.Response:
        return web.json_response(self._desk.memory.document())

    async def _last(self, request: web.Request) -> web.Response:
        return web.json_response([as_json(arrival) for arrival in self._desk.memory.last])

    async def _clear(self, request: web.Request) -> web.Response:
        self._desk.memory.clear()
        return web.json_response({})
