"""Asking a subscription's receiver whether it has a message, where the subscription says.

GET ask, with the token in place of {token}, answers in JSON:

    200 {"found": true, "received_at": "2026-01-31T12:00:00+00:00"}    it has the message, since then
    404 {"found": false}                                               it surely does not have it
    410 {"found": null}                                                it is too old: nobody can tell any more

Whatever else comes back is no answer: a gateway's 404 must not have a message sent again.
"""

import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from sendonce.channels.http.answers import retry_after_of
from sendonce.channels.http.certificates import context_of
from sendonce.channels.http.client import Forbidden, HttpAnswer, HttpClient
from sendonce.channels.http.endpoint import time_in
from sendonce.channels.protocol import Message
from sendonce.domain.answers import BAD_SECRET
from sendonce.domain.destinations import TOKEN
from sendonce.domain.headers import allowed, bearer_of
from sendonce.domain.outcomes import CannotTell, Found, LookUp, NoAnswer, NotThere
from sendonce.errors import ConfigError
from sendonce.signing import sign_look_up

_CAP = 16_384


class SubscriptionLookUps:
    """Asks where the message says, signed with the subscription's own keys.

    Its bearer, its headers and its certificate go along only where the address is on the host that it sends to.
    """

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        """Ask by the message's token."""
        url = (message.ask or "").replace(TOKEN, message.token)
        is_same_host = _origin(url) == _origin(message.address)
        certificate = message.credentials.certificate if is_same_host else None
        try:
            context = context_of(certificate) if certificate else None
        except (ConfigError, OSError):
            return NoAnswer(BAD_SECRET.code, BAD_SECRET.message, fault=BAD_SECRET.fault)
        answered = await self._client.request(
            "GET",
            url,
            headers=_headers(message, is_same_host=is_same_host),
            timeout=timeout,
            ssl=context,
            cap=_CAP,
            tenant=message.tenant,
        )
        if isinstance(answered, HttpAnswer):
            return meaning_of(answered)
        return NoAnswer("address_forbidden" if isinstance(answered, Forbidden) else answered.code, answered.message)


def meaning_of(answer: HttpAnswer) -> LookUp:
    """Return what a receiver's answer means."""
    said = _object_in(answer.text)
    found = said.get("found", said)
    match answer.status:
        case 200 if found is True:
            return Found(sent_at=time_in(said, "received_at", "sent_at"))
        case 404 if found is False:
            return NotThere()
        case 410 if found is None:
            return CannotTell("too_old", "the receiver no longer knows what it had at that time")
        case 200 | 404 | 410:
            return NoAnswer("malformed_answer", f"it answered a look-up with {answer.status} and did not say found")
    again_in = retry_after_of(answer.headers.get("Retry-After"))
    return NoAnswer(f"http_{answer.status}", "it did not say whether it has the message", again_in)


def _headers(message: Message, *, is_same_host: bool) -> Mapping[str, str]:
    credentials = message.credentials
    given: dict[str, str] = {}
    if is_same_host:
        given = allowed(credentials.headers) | bearer_of(credentials.bearer)
    recorded_at = int(message.recorded_at.timestamp())
    return given | sign_look_up(credentials.signing, message.token, int(time.time()), recorded_at)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


def _object_in(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
