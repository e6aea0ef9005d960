"""The one way out over HTTP: webhooks, endpoints, look-ups, mail providers and alerts all go through it.

It dials vetted addresses only, follows no redirect, keeps no cookie, asks no proxy, and says what it knows:

    HttpAnswer     a status came back
    NotSent    surely nothing of the request reached the other side
    Lost       the request may have gone out, and no answer came back
    Forbidden  the guard said no; nothing was dialled
    Ours       nothing was sent, and the fault is our own
"""

import errno
import math
import re
import ssl as tls
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TypeAlias, cast

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import StreamWriter
from aiohttp.payload import Payload

from sendonce.channels.http.dial import NO_ANSWER, GuardedConnector, NameSilent, NotLookedUp, sender_of
from sendonce.channels.http.guard import LEADS_NOWHERE, ForbiddenAddress, ForbiddenName, Guard
from sendonce.channels.protocol import lack_of

BODY_CAP = 2000
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status came back. `text` is the beginning of the body; where that was cut, the status counts all the same."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """Surely nothing of the request reached the other side."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The request, or some of it, may have gone out, and no answer came back."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Forbidden:
    """The address may not be dialled; nothing was sent. `is_name`: its host name resolves to an internal address."""

    message: str
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class Ours:
    """Nothing was sent, and it was not the other side's fault."""

    code: str
    message: str
    again_in: timedelta | None = None


Answered: TypeAlias = HttpAnswer | NotSent | Lost | Forbidden | Ours


class HttpClient:
    """The HTTP session for everything a worker sends. The first request opens it, on its event loop."""

    def __init__(self, guard: Guard, *, name_servers: Sequence[str] = ()) -> None:
        self._guard = guard
        self._name_servers = tuple(name_servers)
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str],
        timeout: float,
        ssl: tls.SSLContext | None = None,
        cap: int = BODY_CAP,
        tenant: str | None = None,
    ) -> Answered:
        """Ask once, within `timeout` seconds; at most `cap` bytes of the answer's body are read.

        `tenant` says whose address it is; None for those of our own settings.
        """
        sent = None if body is None else _Body(body)
        sender_of.set(tenant)
        try:
            response = await self._open().request(
                method,
                url,
                data=sent,
                headers=headers,
                allow_redirects=False,
                timeout=_limits(timeout),
                ssl=True if ssl is None else ssl,
            )
        except ForbiddenAddress as error:
            return Forbidden(str(error), isinstance(error, ForbiddenName))
        except NotLookedUp as error:
            return Ours(error.code, error.message, error.again_in)
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            return Forbidden("it is not an address that can be dialled; write a host name or a plain IP address")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            is_out = _is_after_connecting(error) if sent is None else sent.is_out
            if not is_out and (lacking := lack_of(error)) is not None:
                return Ours("our_server", lacking)
            code = _code_of(error)
            return (Lost if is_out else NotSent)(code, _MESSAGES[code])
        try:
            return HttpAnswer(response.status, response.headers, await _beginning(response, cap))
        finally:
            response.release()

    async def close(self) -> None:
        """Close what is open. May be called again, and by everybody who shares this."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=GuardedConnector(self._guard, self._name_servers),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "sendonce"},
                trust_env=False,
                auto_decompress=False,
            )
        return self._session


class _Body(Payload):
    """A request's bytes, and whether any of them, or of the head that goes before them, may have gone out."""

    _autoclose = True

    def __init__(self, value: bytes) -> None:
        super().__init__(value, content_type="application/json")
        self._size = len(value)
        self.is_out = False

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return cast(bytes, self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Head and body leave in one write, or it raises. A connection that breaks during it took nothing of either."""
        transport = writer.transport
        await cast(StreamWriter, writer).write(self._value, drain=False)
        self.is_out = transport is not None and not transport.is_closing()


@lru_cache(maxsize=100)
def _limits(seconds: float) -> aiohttp.ClientTimeout:
    """Connecting gives up a little earlier: then it is sure that nothing was sent. Nothing is rounded up."""
    return aiohttp.ClientTimeout(total=seconds, connect=seconds * 0.9, ceil_threshold=math.inf)


async def _beginning(response: aiohttp.ClientResponse, cap: int) -> str:
    """The beginning of the body, printable. The status is known by now, so a cut here changes nothing."""
    parts: list[bytes] = []
    left = cap
    try:
        while left > 0 and (part := await response.content.read(left)):
            parts.append(part)
            left -= len(part)
    except (aiohttp.ClientError, TimeoutError, OSError):
        response.close()
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", b"".join(parts).decode("utf-8", "replace"))


_MESSAGES = {
    "connect_timeout": "no connection came about in time",
    "dns_error": LEADS_NOWHERE,
    "dns_timeout": NO_ANSWER,
    "tls_error": "no trusted TLS connection came about",
    "connection_refused": "nobody listens there",
    "cannot_connect": "no connection came about",
    "read_timeout": "no answer came in time",
    "malformed_answer": "what came back was not HTTP",
    "connection_lost": "the connection broke before an answer came",
}


def _code_of(error: Exception) -> str:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return "connect_timeout"
        case aiohttp.ClientConnectorDNSError():
            return "dns_timeout" if isinstance(error.os_error, NameSilent) else "dns_error"
        case aiohttp.ClientSSLError():
            return "tls_error"
        case aiohttp.ClientConnectorError():
            return "connection_refused" if error.errno == errno.ECONNREFUSED else "cannot_connect"
        case TimeoutError():
            return "read_timeout"
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError():
            return "malformed_answer"
    return "connection_lost"


def _is_after_connecting(error: Exception) -> bool:
    return not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
