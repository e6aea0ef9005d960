"""The receiver's web side.

POST (or PUT) anything         a message; its token is the Idempotency-Key, else the webhook-id. Where signatures are
                               verified it is the webhook-id alone, which is signed, and nothing is kept of a bad one
GET  /deliveries/{token}       a look-up: 200 with the id and the time, or 404
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, TypeAlias

from aiohttp import web

from sendonce.devtools.receive.handler import Handler, Reply
from sendonce.devtools.receive.memory import Arrival

LARGEST_BODY = 8 * 1024 * 1024
LOOK_UPS = "/deliveries/"
Verify: TypeAlias = Callable[[Mapping[str, str], bytes], bool]


class Web:
    """Turns requests into arrivals for the handler, and its answers into responses."""

    def __init__(self, handler: Handler, verify: Verify | None) -> None:
        self._handler = handler
        self._verify = verify
        self.server = web.Server(self._handle, request_factory=_request, access_log=None)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method in ("GET", "HEAD"):
            return await self._look_up(request)
        try:
            body = await request.read()
        except (OSError, web.RequestPayloadError):  # cut before it was whole: nothing has arrived
            return web.Response(status=400)
        answer = await self._handler.take(self._arrived(request, body), lambda: _is_gone(request))
        if answer.status is None:
            _hang_up(request)
            return web.Response()
        return await _respond(request, answer)

    def _arrived(self, request: web.BaseRequest, body: bytes) -> Arrival:
        named = request.headers.get("webhook-id") or ""
        if self._verify is None:
            return _arrival(request, body, request.headers.get("Idempotency-Key") or named)
        if self._verify(request.headers, body):
            return _arrival(request, body, named, True)
        return replace(_arrival(request, b"", "", False), attempt=None, headers={})

    async def _look_up(self, request: web.BaseRequest) -> web.Response:
        token = request.path.removeprefix(LOOK_UPS)
        if token == request.path:
            return _json(404, {"error": f"look-ups are GET {LOOK_UPS}TOKEN"})
        status, message = await self._handler.look_up(_arrival(request, b"", token))
        if message is not None:
            return _json(200, {"found": True, "id": message.id, "sent_at": message.sent_at})
        if status == 404:
            return _json(404, {"found": False, "error": "not found"})
        return _json(status, {"error": _phrase(status)})


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=LARGEST_BODY)


def _arrival(request: web.BaseRequest, body: bytes, token: str, is_verified: bool | None = None) -> Arrival:
    attempt = request.headers.get("Sendonce-Attempt", "")
    return Arrival(
        at=datetime.now(UTC),
        method=request.method,
        path=request.path,
        token=token,
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < 10 else None,
        body=body,
        headers=dict(request.headers),
        is_verified=is_verified,
    )


async def _respond(request: web.BaseRequest, answer: Reply) -> web.StreamResponse:
    status = answer.status or 200
    document = {"id": answer.id} if answer.id else {} if status < 300 else {"error": _phrase(status)}
    response = _json(status, document)
    if answer.retry_after is not None:
        response.headers["Retry-After"] = f"{answer.retry_after:g}"
    if answer.is_twice and request.transport is not None:
        request.transport.write(_raw(status, response.body))
    return response


def _raw(status: int, body: object) -> bytes:
    """A whole answer as bytes: the first of two, where one is expected."""
    content = bytes(body) if isinstance(body, bytes | bytearray) else b""
    head = (
        f"HTTP/1.1 {status} {_phrase(status)}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    )
    return head.encode() + b"\r\n" + content


def _json(status: int, document: object) -> web.Response:
    return web.Response(status=status, body=json.dumps(document).encode(), content_type="application/json")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Status"


def _is_gone(request: web.BaseRequest) -> bool:
    return request.transport is None or request.transport.is_closing()


def _hang_up(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
