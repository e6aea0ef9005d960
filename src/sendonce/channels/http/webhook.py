"""http: and https: as Standard Webhooks, and the one POST that every HTTP destination shares."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sendonce.channels.http.answers import outcome_of, without
from sendonce.channels.http.certificates import context_of
from sendonce.channels.http.client import BODY_CAP, Answered, HttpAnswer, HttpClient
from sendonce.channels.protocol import Message, lack_of
from sendonce.domain.answers import BAD_SECRET, LACKING
from sendonce.domain.headers import VALUE, allowed, bearer_of, plain
from sendonce.domain.outcomes import Deferred, Outcome
from sendonce.errors import ConfigError
from sendonce.signing import key_of, sign


async def post(
    client: HttpClient,
    message: Message,
    *,
    timeout: float,
    keys: Sequence[bytes] = (),
    headers: Mapping[str, str],
    certificate: str | None = None,
    ca: str | None = None,
    cap: int = BODY_CAP,
) -> Answered | Deferred:
    """POST a message's bytes as they were recorded. `keys` sign it; `headers` and `certificate` are the channel's own.

    What the answer repeats of our secrets is left out of it. Deferred when its secrets cannot be used.
    """
    certificate = message.credentials.certificate or certificate
    try:
        context = context_of(certificate, ca) if certificate or ca else None
    except ConfigError as error:
        return replace(BAD_SECRET, message=str(error))
    except OSError as error:
        return replace(LACKING, message=lack_of(error) or "no file can be written for OpenSSL")
    if not VALUE.fullmatch(message.credentials.bearer or ""):
        return replace(BAD_SECRET, message="the subscription's bearer secret is more than one line")
    body = message.body.encode()
    stamped = _stamped(message, body, keys)
    given = _given(message, headers)
    answered = await client.request(
        "POST",
        message.address,
        body=body,
        headers=given | stamped,
        timeout=timeout,
        ssl=context,
        cap=cap,
        tenant=message.tenant,
    )
    if type(answered) is HttpAnswer and answered.text:
        return replace(answered, text=without(answered.text, _secrets(message, headers, stamped)))
    return answered


def _given(message: Message, headers: Mapping[str, str]) -> dict[str, str]:
    """The event's headers, the channel's before those, and the subscription's before those."""
    events = allowed(json.loads(message.headers)) if message.headers else {}
    credentials = message.credentials
    own = allowed(credentials.headers) if credentials.headers else {}
    given: dict[str, str] = bearer_of(credentials.bearer)
    for others in (own, headers, events):
        if others:
            alike = {plain(name) for name in given}
            given |= {name: value for name, value in others.items() if plain(name) not in alike}
    return given


def _stamped(message: Message, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """The headers that are ours: they are the same on every attempt, but for its number, the time and the signature."""
    token = message.token
    now = int(time.time())
    stamped = {
        "content-type": "application/json",
        "idempotency-key": token,
        "sendonce-attempt": str(message.attempt),
        "sendonce-type": message.type,
        "webhook-id": token,
        "webhook-timestamp": str(now),
    }
    if keys:
        stamped["webhook-signature"] = sign(keys, token, now, body)
    return stamped


def _secrets(message: Message, headers: Mapping[str, str], stamped: Mapping[str, str]) -> Iterable[str]:
    """Return the secrets that must not be kept where an answer repeats them."""
    yield from (each.partition(",")[2] for each in stamped.get("webhook-signature", "").split())
    for value in (*headers.values(), *message.credentials.headers.values()):
        yield value.removeprefix("Bearer ")
    if message.credentials.bearer:
        yield message.credentials.bearer


class Webhook:
    """Signs with a subscription's own keys, and the rest with `secret`. Its other side cannot be asked."""

    def __init__(self, client: HttpClient, *, secret: str | None = None) -> None:
        self._client = client
        self._keys = () if secret is None else (key_of(secret),)

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """POST the body once and say what the answer means."""
        # Our own key signs nothing for a receiver that a tenant chose: it could show that to ours.
        keys = message.credentials.signing or (() if message.is_for_subscription else self._keys)
        return outcome_of(await post(self._client, message, timeout=timeout, keys=keys, headers={}))

    async def close(self) -> None:
        await self._client.close()
