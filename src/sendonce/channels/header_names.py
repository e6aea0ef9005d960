"""Headers of a request that nobody but us may set: what frames it, or says whose it is. In every spelling of them.

Many servers hand headers on as variables, in which webhook-id, webhook_id and webhook.id are all HTTP_WEBHOOK_ID.
"""

import re
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
_FAMILIES = ("content-", "proxy-", "sendonce-", "webhook-")


@lru_cache(maxsize=1000)
def plain(name: str) -> str:
    """What a server may take a header's name for: two that are alike in it may be one to the receiver."""
    return _NOT_PLAIN.sub("-", name.lower())


def is_ours(name: str) -> bool:
    """True for a header that a caller or a subscription must leave to us."""
    alike = plain(name)
    return alike in _OURS or alike.startswith(_FAMILIES)
