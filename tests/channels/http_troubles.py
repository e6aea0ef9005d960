"""How a channel that speaks HTTP meets each trouble: the address to send to, while the trouble lasts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.channels.troubles import (
    HALF_AN_ANSWER,
    HOST,
    NO_SUCH_HOST,
    NOT_HTTP,
    Connected,
    after_a_request,
    free_port,
    hang_up,
    never_accepting,
    raw_server,
    reset,
    reset_at_first_bytes,
    server_context,
    silent,
)

_SERVERS: dict[str, Connected] = {
    "TLS error": silent,
    "reset before the request went out": reset_at_first_bytes,
    "reset after the request went out": after_a_request(b"", then=reset),
    "read timeout": silent,
    "cut in the body of the answer": after_a_request(HALF_AN_ANSWER, then=reset),
    "malformed answer": after_a_request(NOT_HTTP, then=hang_up),
    "accepted, then dropped": after_a_request(b"", then=hang_up),
}


@asynccontextmanager
async def place_in_trouble(trouble: str) -> AsyncIterator[str]:
    """The beginning of an address, like http://127.0.0.1:8080, where this trouble waits."""
    if trouble == "connection refused":
        yield f"http://{HOST}:{free_port()}"
    elif trouble == "DNS error":
        yield f"http://{NO_SUCH_HOST}"
    elif trouble == "connect timeout":
        async with never_accepting() as port:
            yield f"http://{HOST}:{port}"
    else:
        is_tls = trouble in ("TLS error", "reset before the request went out")
        context = server_context() if trouble == "TLS error" else None
        async with raw_server(_SERVERS[trouble], context=context) as port:
            yield f"{'https' if is_tls else 'http'}://{HOST}:{port}"
