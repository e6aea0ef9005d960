"""Signatures of Standard Webhooks: HMAC-SHA256 over id, time and body, one for each key."""

import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta

from sendonce.errors import ConfigError

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
TOLERANCE = timedelta(minutes=5)


def new_secret() -> str:
    """A secret to share with a receiver: `whsec_` and 32 random bytes."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def key_of(secret: str) -> bytes:
    """The bytes that sign; ConfigError, without the secret, when it is none."""
    text = secret.strip()
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(PREFIX) or not SHORTEST <= len(key) <= LONGEST:
        raise ConfigError(
            f"a signing secret is {PREFIX} and the base64 of {SHORTEST} to {LONGEST} random bytes; "
            f"make one with: printf {PREFIX}; openssl rand -base64 32"
        )
    return key


def sign(keys: Sequence[bytes], id: str, timestamp: int, body: bytes) -> str:
    """The value of webhook-signature: `v1,…` for each key, with a space between them."""
    content = b"%b.%d.%b" % (id.encode(), timestamp, body)
    return " ".join(["v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in keys])


def verify(keys: Sequence[bytes], headers: Mapping[str, str], body: bytes, *, now: float) -> bool:
    """Whether a request was signed with one of the keys, within five minutes of `now`. Names in any case."""
    given = {name.lower(): value for name, value in headers.items()}
    id, stamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    if not id or not (stamp.isascii() and stamp.isdigit()) or len(stamp) > 12:
        return False
    if abs(now - int(stamp)) > TOLERANCE.total_seconds():
        return False
    try:
        signatures = [each.encode() for each in given.get("webhook-signature", "").split()]
        expected = [sign([key], id, int(stamp), body).encode() for key in keys]
    except UnicodeEncodeError:  # bytes that are no text, as servers hand them on: nobody signs such
        return False
    # Every pair is compared, so that the time it takes tells nothing.
    return any([hmac.compare_digest(one, other) for one in signatures for other in expected])
