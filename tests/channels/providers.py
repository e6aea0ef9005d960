"""Mail providers on loopback that behave as their documentation says, misbehave when told, and count what they have."""

import asyncio
import uuid
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, Self

from aiohttp import web

SECRET = "secret-of-the-account"


class Trouble(StrEnum):
    """What becomes of one request."""

    DROP = "the connection breaks before it is taken"
    TAKE_AND_DROP = "it is taken, then the connection breaks"
    TAKE_AND_HANG = "it is taken, and no answer comes"
    TAKE_AND_FAIL = "it is taken, and the answer is 500"
    TAKE_AND_BABBLE = "it is taken, and the answer is no JSON"
    RATE_LIMIT = "429"
    MAINTENANCE = "503"


class Kept(NamedTuple):
    """A mail that a provider has taken: it will reach its recipient."""

    id: str
    token: str
    at: datetime
    parts: dict[str, Any]

    @property
    def when(self) -> str:
        return self.at.isoformat()


class FakeProvider:
    """`mails` is what it has really taken, `known` what it still remembers of them; troubles are used up one by one."""

    def __init__(self, *, secret: str = SECRET) -> None:
        self.secret = secret
        self.mails: list[Kept] = []
        self.known: list[Kept] = []
        self.troubles: list[Trouble] = []
        self.asking_troubles: list[Trouble] = []
        self.refusal: tuple[int, dict[str, Any]] | None = None
        self.is_forgetful = False
        self.posts = 0
        self.asked = 0
        self.url = ""
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        [address] = self._runner.addresses
        self.url = f"http://127.0.0.1:{address[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "POST":
            self.posts += 1
            troubles = self.troubles
        else:
            self.asked += 1
            troubles = self.asking_troubles
        trouble = troubles.pop(0) if troubles else None
        if trouble is Trouble.RATE_LIMIT:
            return web.json_response({"name": "rate_limit_exceeded"}, status=429, headers={"Retry-After": "1"})
        if trouble is Trouble.MAINTENANCE:
            return web.Response(status=503)
        parts = await request.json() if request.can_read_body else {}
        if trouble is Trouble.DROP:
            return hung_up(request)
        answer = self._answer(request, parts)
        if trouble is Trouble.TAKE_AND_DROP:
            return hung_up(request)
        if trouble is Trouble.TAKE_AND_HANG:
            await asyncio.Event().wait()
        if trouble is Trouble.TAKE_AND_FAIL:
            return web.Response(status=500)
        return web.Response(text="<html>") if trouble is Trouble.TAKE_AND_BABBLE else answer

    def _answer(self, request: web.BaseRequest, parts: dict[str, Any]) -> web.Response:
        raise NotImplementedError

    def _take(self, token: str, parts: dict[str, Any]) -> Kept:
        kept = Kept(str(uuid.uuid4()), token, datetime.now(UTC), parts)
        self.mails.append(kept)
        if not self.is_forgetful:
            self.known.append(kept)
        return kept


class FakePostmark(FakeProvider):
    """Takes every mail it is given, again and again: it does not deduplicate. Its search can lag behind."""

    is_lagging = False

    def _answer(self, request: web.BaseRequest, parts: dict[str, Any]) -> web.Response:
        if request.headers.get("X-Postmark-Server-Token") != self.secret:
            return web.json_response({"ErrorCode": 10, "Message": "Bad or missing API token"}, status=401)
        if request.path == "/messages/outbound":
            return self._search(request.query.get("metadata_sendonce"), int(request.query["count"]))
        if self.refusal is not None:
            return web.json_response(self.refusal[1], status=self.refusal[0])
        if not parts.get("TextBody") and not parts.get("HtmlBody"):
            return web.json_response({"ErrorCode": 300, "Message": "Provide either body"}, status=422)
        kept = self._take(parts["Metadata"]["sendonce"], parts)
        return web.json_response(
            {
                "To": parts["To"],
                "SubmittedAt": kept.when,
                "MessageID": kept.id,
                "ErrorCode": 0,
                "Message": "OK",
            }
        )

    def _search(self, token: str | None, count: int) -> web.Response:
        found = [] if self.is_lagging else [kept for kept in self.known if token in (None, kept.token)]
        messages = [
            {
                "MessageID": kept.id,
                "Metadata": kept.parts["Metadata"],
                "ReceivedAt": kept.when,
                "Status": "Sent",
                "Subject": kept.parts.get("Subject"),
            }
            for kept in found
        ]
        return web.json_response({"TotalCount": len(found), "Messages": messages[:count]})


class FakeResend(FakeProvider):
    """Takes a mail once per Idempotency-Key, and answers the same again for as long as it remembers."""

    is_sending_only = False

    def _answer(self, request: web.BaseRequest, parts: dict[str, Any]) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.secret}":
            return _error(403, "invalid_api_key")
        if request.method == "GET":
            return self._retrieve(request.path.removeprefix("/emails/"))
        if self.refusal is not None:
            return web.json_response(self.refusal[1], status=self.refusal[0])
        token = request.headers["Idempotency-Key"]
        kept = next((each for each in self.known if each.token == token), None)
        if kept is None:
            kept = self._take(token, parts)
        elif kept.parts != parts:
            return _error(409, "invalid_idempotent_request")
        return web.json_response({"id": kept.id})

    def _retrieve(self, id: str) -> web.Response:
        if self.is_sending_only:
            return _error(401, "restricted_api_key")
        for kept in self.known:
            if kept.id == id:
                first = {"object": "email", "id": kept.id, "to": kept.parts["to"], "created_at": kept.when}
                return web.json_response({**first, **kept.parts, "last_event": "delivered"})
        return _error(404, "not_found")


def hung_up(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _error(status: int, name: str) -> web.Response:
    return web.json_response({"statusCode": status, "name": name, "message": "in their own words"}, status=status)
