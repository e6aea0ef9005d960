"""Signatures of Standard Webhooks: HMAC-SHA256 over id, time and body, one for each key."""

import base64
import binascii
import hmac
import secrets
from collections.abc import Sequence

from sendonce.errors import ConfigError

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
LOOK_UP = "look-up:"
RECORDED_AT = "sendonce-recorded-at"


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


def sign_look_up(keys: Sequence[bytes], token: str, timestamp: int, recorded_at: int) -> dict[str, str]:
    """The headers of a look-up: signed are its own kind of id and, as the body, when the message was recorded.

    So nobody can show a receiver a look-up as a webhook, nor a webhook as a look-up.
    """
    id, body = f"{LOOK_UP}{token}", str(recorded_at)
    headers = {"webhook-id": id, "webhook-timestamp": str(timestamp), RECORDED_AT: body}
    if keys:
        headers["webhook-signature"] = sign(keys, id, timestamp, body.encode())
    return headers
