"""Secrets of subscriptions: checked when they are given, sealed before they are stored, rotated and sealed anew."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from sendonce.admin.desk import Desk
from sendonce.admin.subscriptions import standing
from sendonce.channels.header_names import is_ours
from sendonce.channels.signing import key_of
from sendonce.errors import ConfigError
from sendonce.sealing import VARIABLE, SecretBox, Use
from sendonce.store.ports import SealStore
from sendonce.store.records import SubscriptionRow
from sendonce.store.subscriptions import Sealing

LONGEST_OVERLAP = timedelta(days=30)
_VISIBLE = re.compile(r"[!-~]{1,8000}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}", re.ASCII)
_VALUE = re.compile(r"[!-~](?:[ -~]{0,7998}[!-~])?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Secrets:
    """What a subscription's requests are to be signed and sent with, as `check_…` has let it pass."""

    signing: str | None = None
    bearer: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    certificate: str | None = None

    def sealed(self, sealer: SecretBox) -> Sealing:
        """By kind, as they are stored for the subscription whose id it is told."""
        texts = {
            "signing": self.signing,
            "bearer": self.bearer,
            "headers": json.dumps(dict(self.headers), sort_keys=True) if self.headers else None,
            "certificate": self.certificate,
        }
        given = {kind: text.encode() for kind, text in texts.items() if text is not None}
        return lambda id: {kind: sealer.seal(text, Use(id, kind)) for kind, text in given.items()}


@dataclass(frozen=True, slots=True)
class Rotated:
    """A subscription with a new secret; `is_replacement` when it had one before."""

    subscription: SubscriptionRow
    is_replacement: bool


def check_signing(text: str) -> str:
    """A secret that one brings oneself: `whsec_` and the base64 of 24 to 64 bytes."""
    key_of(text.strip())
    return text.strip()


def check_bearer(text: str) -> str:
    if not _VISIBLE.fullmatch(text.strip()):
        raise ConfigError("a bearer token is one line of visible ASCII characters")
    return text.strip()


def check_headers(lines: Iterable[str]) -> dict[str, str]:
    """Headers as `Name: value`, each once. Never shows a value: it may be an access key."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = (part.strip(" \t") for part in line.partition(":"))
        if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigError("a header is written as Name: value, in visible ASCII characters on one line")
        if is_ours(name):  # better said now than missed later: a sender would leave it out
            raise ConfigError(f"the header {name} is set by sendonce; leave it out")
        if name.lower() in {each.lower() for each in headers}:
            raise ConfigError(f"the header {name} is given twice")
        headers[name] = value
    return headers


def check_certificate(pem: str) -> str:
    """A client certificate (chain) and its private key in one PEM text, tried as a sender uses it."""
    from sendonce.channels.certificates import context_of

    context_of(pem)
    return pem


async def rotate(
    desk: Desk,
    subscription_id: int,
    secret: str,
    *,
    overlap: timedelta,
    sealer: SecretBox,
    operator: str,
    reason: str | None = None,
) -> Rotated:
    """Sign with this secret too from now on, and with it alone after `overlap`."""
    if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        raise ConfigError(f"an overlap is between zero and {LONGEST_OVERLAP.days} days long")
    found = await standing(desk, subscription_id)
    is_replacement = any(each.kind == "signing" for each in await desk.kept_secrets(subscription_id))
    stored = sealer.seal(check_signing(secret).encode(), Use(subscription_id, "signing"))
    await desk.rotate_secret(subscription_id, stored, overlap=overlap, operator=operator, reason=reason)
    return Rotated(found, is_replacement)


async def reseal(store: SealStore, sealer: SecretBox, *, operator: str) -> int:
    """Encrypt every stored secret with the first key, for what it is of alone, also those that were plain or opened for
    any use until now; how many there were."""
    if not sealer.has_keys:
        raise ConfigError(f"set {VARIABLE} first; a key is made by: sendonce new-key")

    def seal(subscription_id: int, kind: str, stored: bytes) -> bytes:
        use = Use(subscription_id, kind)
        return sealer.seal(sealer.open(stored, use), use)

    acted = await store.reseal(seal, operator=operator)
    return len(acted.ids)
