"""Headers of a request that nobody but us may set: what frames it, or says whose it is."""

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


def is_ours(name: str) -> bool:
    """True for a header that a caller or a subscription must leave to us."""
    low = name.lower()
    return low in _OURS or low.startswith(_FAMILIES)
