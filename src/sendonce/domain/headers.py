"""The headers of a request: which ones callers may set, and which ones frame it or say whose it is.

Many servers hand headers on as variables, in which webhook-id, webhook_id and webhook.id are all HTTP_WEBHOOK_ID.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

_NOT_PLAIN = re.compile(r"[^a-z0-9]")
_OURS = frozenset(
    {
        "connection",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
VALUE = re.compile("[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_FAMILIES = ("content-", "proxy-", "sendonce-", "webhook-")


@lru_cache(maxsize=1000)
def plain(name: str) -> str:
    """Return a header's name as servers may read it: names that are then equal may be one to the receiver."""
    return _NOT_PLAIN.sub("-", name.lower())


def is_ours(name: str) -> bool:
    """True for a header that a caller or a subscription must leave to us."""
    alike = plain(name)
    return alike in _OURS or alike.startswith(_FAMILIES)


def allowed(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that a caller may set, by lower-case name; leave out values that could break a line."""
    return {name.lower(): value for name, value in headers.items() if is_allowed(name, value)}


def is_allowed(name: str, value: object) -> bool:
    """Return whether a caller may set this header: it is one line, and not one of ours."""
    return (
        not is_ours(name)
        and _NAME.fullmatch(name) is not None
        and isinstance(value, str)
        and VALUE.fullmatch(value) is not None
    )


def bearer_of(token: str | None) -> dict[str, str]:
    """The header that carries a bearer secret, if there is one."""
    return {} if token is None else {"authorization": f"Bearer {token}"}
