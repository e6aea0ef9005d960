"""A receiver that can be asked: a small ASGI application that says whether a message was handled.

>>> app.mount("/receipts", receipts(inbox, engine.connect, consumer="orders", secrets=["whsec_…"]))

A sender whose subscription has `ask = "https://…/receipts/{token}"` asks it before it sends anything again:

    GET …/TOKEN   200 {"found": true, "received_at": …, "duplicates": …, "result": …}   it was handled, since then
                  404 {"found": false}                                                  it was not handled
                  410 {"found": null, "error": …}   it is older than receipts are kept: nobody can tell any more
                  401, 400, 405, 429, 503 {"error": …}   no answer
"""

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from sendonce.errors import BadWebhook, ConfigError
from sendonce.inbox.inbox import Inbox
from sendonce.inbox.receipts import Receipt
from sendonce.inbox.webhooks import LONGEST_ID, header_of, verify
from sendonce.signing import LOOK_UP, RECORDED_AT, key_of

__all__ = ["receipts"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
# A context manager, sync or async, that gives a connection.
Connect: TypeAlias = Callable[[], Any]

KEEP = timedelta(days=90)
# Clocks differ: what is nearly as old as receipts become may be gone.
MARGIN = timedelta(hours=1)
_log = logging.getLogger("sendonce.inbox")


def receipts(
    inbox: Inbox,
    connect: Connect,
    *,
    consumer: str,
    secrets: str | Sequence[str] = (),
    bearer: str | None = None,
    keep: timedelta = KEEP,
    rate: float = 100.0,
    at_once: int = 8,
) -> Application:
    """Answer look-ups about the messages of one consumer, as an ASGI application to be mounted anywhere.

    `connect` is called for each look-up and gives a connection as a context manager, sync or async: `engine.connect`,
    `pool.connection`, `lambda: closing(sqlite3.connect(…))`. Who asks is known by the subscription's own secret: its
    signature (`secrets`), or its `bearer`. `keep` is for how long receipts are kept (`[inbox] keep`). At most `rate`
    look-ups a second are answered, and `at_once` at the same time.
    """
    return _Receipts(inbox, connect, consumer, _Keys(secrets, bearer), keep, _Limits(rate, at_once))


class _Keys:
    """What whoever asks has to show: a signature by one of the secrets, or the bearer."""

    def __init__(self, secrets: str | Sequence[str], bearer: str | None) -> None:
        self.secrets = [secrets] if isinstance(secrets, str) else list(secrets)
        self._bearer = bearer
        if not self.secrets and not bearer:
            raise ConfigError("give the secrets or the bearer of the subscription: nobody else may ask about messages")
        for each in self.secrets:
            key_of(each)

    def check(self, headers: Sequence[tuple[str, str]], token: str) -> datetime:
        """Return when the message was recorded, as the sender says; BadWebhook when it is not the sender."""
        recorded_at = header_of(headers, RECORDED_AT)
        if not recorded_at.isdigit() or len(recorded_at) > 11:
            raise BadWebhook(f"its header {RECORDED_AT} is not a whole number of seconds since 1970")
        if self._bearer is not None and any(name == "authorization" for name, _ in headers):
            if not hmac.compare_digest(header_of(headers, "authorization").encode(), f"Bearer {self._bearer}".encode()):
                raise BadWebhook("its bearer is not the one of this receiver")
        elif not self.secrets:
            raise BadWebhook("it has no header authorization")
        elif verify(headers, recorded_at.encode(), self.secrets).id != f"{LOOK_UP}{token}":
            raise BadWebhook("it is signed for another message")
        return datetime.fromtimestamp(int(recorded_at), UTC)


class _Limits:
    """So many a second, with as many saved up, and so many at the same time."""

    def __init__(self, rate: float, at_once: int) -> None:
        if rate <= 0 or at_once < 1:
            raise ConfigError("rate must be above zero, and at_once at least 1")
        self._rate, self._left, self._at = rate, max(rate, 1.0), time.monotonic()
        self._free = at_once

    def take(self) -> bool:
        """Take a place, which is to be given back; False when there is none now."""
        now = time.monotonic()
        self._left = min(self._left + (now - self._at) * self._rate, max(self._rate, 1.0))
        self._at = now
        if self._left < 1 or self._free < 1:
            return False
        self._left -= 1
        self._free -= 1
        return True

    def give_back(self) -> None:
        self._free += 1


class _Refused(Exception):
    """No look-up: with this status, for this reason."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, dict(headers or {})


class _Receipts:
    def __init__(
        self, inbox: Inbox, connect: Connect, consumer: str, keys: _Keys, keep: timedelta, limits: _Limits
    ) -> None:
        if keep <= MARGIN:
            raise ConfigError("keep must be longer than an hour: it is for how long receipts are kept")
        self._inbox, self._connect, self._consumer = inbox, connect, consumer
        self._keys, self._keep, self._limits = keys, keep, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await _live(receive, send)
        if scope["type"] != "http":
            return None
        try:
            status, document = await self._answer(scope)
            headers: dict[str, str] = {}
        except _Refused as refused:
            status, document, headers = refused.status, {"error": str(refused)}, refused.headers
        return await _respond(send, status, document, headers, has_body=scope["method"] != "HEAD")

    async def _answer(self, scope: Scope) -> tuple[int, dict[str, object]]:
        if scope["method"] not in ("GET", "HEAD"):
            raise _Refused(405, "ask with GET …/TOKEN", {"allow": "GET, HEAD"})
        token = str(scope["path"]).rpartition("/")[2]
        if not token or not token.isprintable() or len(token.encode("utf-8", "replace")) > LONGEST_ID:
            raise _Refused(400, f"the path ends with the message's token, of at most {LONGEST_ID} bytes")
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        try:
            recorded_at = self._keys.check(headers, token)
        except BadWebhook as error:
            raise _Refused(401, str(error)) from None
        # Whoever has no secret has been sent away by now, and cannot use up what is there for the sender.
        if not self._limits.take():
            raise _Refused(429, "too many look-ups; ask again in a second", {"retry-after": "1"})
        try:
            return self._said(await self._look(token), recorded_at)
        except Exception as error:
            # Whatever it is, it is no "not found". Its text may hold what is secret.
            _log.error("a look-up could not be answered: %s", type(error).__name__)
            raise _Refused(503, "it cannot be looked up now; ask again", {"retry-after": "5"}) from None
        finally:
            self._limits.give_back()

    def _said(self, receipt: Receipt | None, recorded_at: datetime) -> tuple[int, dict[str, object]]:
        if receipt is not None:
            received_at = None if receipt.received_at is None else receipt.received_at.isoformat()
            found = {"found": True, "received_at": received_at, "duplicates": receipt.duplicates}
            return 200, {**found, "result": receipt.result}
        if datetime.now(UTC) - recorded_at >= self._keep - MARGIN:
            return 410, {"found": None, "error": "the message is older than receipts are kept: nobody can tell"}
        return 404, {"found": False}

    async def _look(self, token: str) -> Receipt | None:
        opened = self._connect()
        if hasattr(opened, "__aenter__"):
            async with opened as connection:
                return await self._inbox.aseen(connection, self._consumer, token)
        return await asyncio.to_thread(self._look_now, opened, token)

    def _look_now(self, opened: Any, token: str) -> Receipt | None:
        with opened as connection:
            return self._inbox.seen(connection, self._consumer, token)


async def _live(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


async def _respond(
    send: Send, status: int, document: Mapping[str, object], headers: Mapping[str, str], *, has_body: bool
) -> None:
    body = json.dumps(document).encode()
    ours = {"content-type": "application/json", "content-length": str(len(body)), "cache-control": "no-store"}
    encoded = [(name.encode(), value.encode()) for name, value in (ours | dict(headers)).items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body if has_body else b""})
