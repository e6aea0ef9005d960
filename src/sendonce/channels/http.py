"""http: and https: as a plain POST. The token travels as Idempotency-Key, the same on every attempt."""

import json
import math
from datetime import timedelta

import aiohttp

from sendonce.channels.protocol import Message
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Outcome, Refused, Unknown

BODY_CAP = 2000
_RETRY = {408, 425, 429}


class HttpChannel:
    """One session for all sends of a worker. Redirects are not followed and the environment's proxies not used."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """POST the body once and say what the answer means."""
        try:
            async with self._open().post(
                message.address,
                data=message.body.encode(),
                headers=_headers(message),
                allow_redirects=False,
                timeout=_limits(timeout),
            ) as response:
                status = response.status
                text = await _short_body(response)
                return outcome_of(status, retry_after_of(response.headers.get("Retry-After")), text)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            return Failed("cannot_connect", type(error).__name__)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return Unknown("no_answer", type(error).__name__)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=30), trust_env=False, auto_decompress=False
            )
        return self._session


def outcome_of(status: int, retry_after: timedelta | None, text: str) -> Outcome:
    """What an HTTP status means for a delivery."""
    code = f"http_{status}"
    if 200 <= status < 300:
        return Delivered(response=text or None)
    if status in (429, 503) and retry_after is not None:
        return Deferred(code, "the receiver asked to wait", again_in=retry_after, response=text or None)
    if status in _RETRY or status >= 500:
        return Failed(code, "the receiver failed", retry_after=retry_after, response=text or None)
    return Refused(code, "the receiver refused it", response=text or None)


def retry_after_of(value: str | None) -> timedelta | None:
    """Seconds of a Retry-After header; other forms are not read."""
    try:
        seconds = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return timedelta(seconds=min(seconds, 86_400.0)) if seconds >= 0 else None


def _headers(message: Message) -> dict[str, str]:
    given: dict[str, str] = json.loads(message.headers) if message.headers else {}
    ours = {
        "Content-Type": "application/json",
        "User-Agent": "sendonce",
        "Idempotency-Key": message.token,
        "Sendonce-Attempt": str(message.attempt),
    }
    taken = {name.lower() for name in ours}
    return ours | {name: value for name, value in given.items() if name.lower() not in taken}


def _limits(seconds: float) -> aiohttp.ClientTimeout:
    """Connecting gives up a little earlier: then it is sure that nothing was sent. Nothing is rounded up."""
    return aiohttp.ClientTimeout(total=seconds, connect=seconds * 0.9, ceil_threshold=math.inf)


async def _short_body(response: aiohttp.ClientResponse) -> str:
    """The beginning of the answer, for the operator. The status is known by now, so a cut here changes nothing."""
    try:
        return (await response.content.read(BODY_CAP)).decode("utf-8", "replace")
    except (aiohttp.ClientError, TimeoutError, OSError):
        return ""
