"""Webhooks that come in: who has sent one is proven on its raw bytes, before anything of it is read.

>>> webhook = verify(request.headers, body, secrets)
>>> with once(connection, "orders", webhook.id) as first: ...
"""

import base64
import hmac
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from sendonce.domain.durations import format_duration
from sendonce.errors import BadWebhook, ConfigError
from sendonce.signing import key_of

__all__ = ["BadWebhook", "Scheme", "Webhook", "verify"]

Scheme: TypeAlias = Literal["standard", "svix", "stripe", "github", "shopify"]
Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]

TOLERANCE = timedelta(minutes=5)
LONGEST_ID = 500
LONGEST_HEADER = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A request whose sender is proven. `id` is the same each time its sender tries again: the key for `once`.

    `sent_at` is when this try was signed; None where the scheme signs no time. GitHub and Shopify do not sign the id.
    """

    id: str
    body: bytes = field(repr=False)
    sent_at: datetime | None = None

    def json(self) -> Any:
        """What its body says; BadWebhook when that is not JSON in UTF-8."""
        try:
            return json.loads(self.body.decode())
        except UnicodeDecodeError:
            raise BadWebhook("its body is not UTF-8") from None
        except (ValueError, RecursionError):
            raise BadWebhook("its body is not JSON") from None


def verify(
    headers: Headers,
    body: bytes,
    secrets: str | Sequence[str],
    *,
    scheme: Scheme = "standard",
    tolerance: timedelta = TOLERANCE,
    now: float | None = None,
) -> Webhook:
    """Return the webhook, when one of the secrets has signed these bytes within `tolerance` of now; else BadWebhook.

    `headers` are the request's, names in any case; `body` is what came in, neither parsed nor decoded. During a change
    of secrets both are given. `now` is in seconds since 1970, for tests.
    """
    if not isinstance(body, bytes):
        raise TypeError("the body must be the raw bytes of the request: what was parsed or decoded cannot be verified")
    if tolerance <= timedelta(0):
        raise ConfigError("tolerance must be above zero")
    rules = _SCHEMES.get(scheme)
    if rules is None:
        raise ConfigError(f"there is no scheme {scheme!r}; there are: {', '.join(_SCHEMES)}")
    keys = _keys(secrets, rules)
    given = {name: header_of(headers, name) for name in rules.headers}
    signed = rules.read(given, body)
    expected = [rules.written(hmac.digest(key, signed.content, "sha256")).encode() for key in keys]
    # Every pair is compared, so that the time it takes tells nothing.
    if not any([hmac.compare_digest(one.encode(), other) for one in signed.signatures for other in expected]):
        raise BadWebhook("its signature is by none of the secrets, or its body is not as it was sent")
    if signed.at is not None:
        _check_time(signed.at, time.time() if now is None else now, tolerance)
    sent_at = None if signed.at is None else datetime.fromtimestamp(signed.at, UTC)
    return Webhook(id=_checked_id(rules.id_of(given, body)), body=body, sent_at=sent_at)


class _Signed(NamedTuple):
    """What a request claims: these signatures of this content, made at this time."""

    signatures: Sequence[str]
    content: bytes
    at: int | None


class _Rules(NamedTuple):
    """How a scheme signs: its headers, how they are read, how a digest is written, where the id is, what a key is."""

    headers: tuple[str, ...]
    read: Callable[[Mapping[str, str], bytes], _Signed]
    written: Callable[[bytes], str]
    id_of: Callable[[Mapping[str, str], bytes], object]
    key: Callable[[str], bytes] = str.encode


def _standard(prefix: str) -> _Rules:
    """Standard Webhooks, and Svix under its own names."""
    id, stamp, signature = f"{prefix}-id", f"{prefix}-timestamp", f"{prefix}-signature"

    def read(given: Mapping[str, str], body: bytes) -> _Signed:
        at = _seconds(stamp, given[stamp])
        signatures = [each.removeprefix("v1,") for each in given[signature].split() if each.startswith("v1,")]
        if not signatures:
            raise BadWebhook(f"its header {signature} has no signature of version v1")
        return _Signed(signatures, b"%b.%d.%b" % (given[id].encode(), at, body), at)

    return _Rules((id, stamp, signature), read, _base64, lambda given, _: given[id], key_of)


def _read_stripe(given: Mapping[str, str], body: bytes) -> _Signed:
    header = given["stripe-signature"]
    parts = [part.strip().partition("=") for part in header.split(",")]
    stamps = [value for name, _, value in parts if name == "t"]
    if len(stamps) != 1:
        raise BadWebhook("its header stripe-signature must have one time: t=…")
    signatures = [value for name, _, value in parts if name == "v1"]
    if not signatures:
        raise BadWebhook("its header stripe-signature has no signature of version v1")
    at = _seconds("stripe-signature", stamps[0])
    return _Signed(signatures, b"%d.%b" % (at, body), at)


def _read_github(given: Mapping[str, str], body: bytes) -> _Signed:
    version, _, signature = given["x-hub-signature-256"].partition("=")
    if version != "sha256":
        raise BadWebhook("its header x-hub-signature-256 must begin with sha256=")
    return _Signed([signature], body, None)


def _read_shopify(given: Mapping[str, str], body: bytes) -> _Signed:
    return _Signed([given["x-shopify-hmac-sha256"]], body, None)


def _id_in_body(_: Mapping[str, str], body: bytes) -> object:
    event = Webhook(id="", body=body).json()
    return event.get("id") if isinstance(event, dict) else None


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


_SCHEMES: dict[str, _Rules] = {
    "standard": _standard("webhook"),
    "svix": _standard("svix"),
    "stripe": _Rules(("stripe-signature",), _read_stripe, bytes.hex, _id_in_body),
    "github": _Rules(
        ("x-github-delivery", "x-hub-signature-256"),
        _read_github,
        bytes.hex,
        lambda given, _: given["x-github-delivery"],
    ),
    "shopify": _Rules(
        ("x-shopify-webhook-id", "x-shopify-hmac-sha256"),
        _read_shopify,
        _base64,
        lambda given, _: given["x-shopify-webhook-id"],
    ),
}


def _keys(secrets: str | Sequence[str], rules: _Rules) -> list[bytes]:
    wanted = [secrets] if isinstance(secrets, str) else list(secrets)
    if not wanted or not all(isinstance(each, str) and each.strip() for each in wanted):
        raise ConfigError("there is no secret to verify webhooks with, or an empty one; give those that the sender has")
    return [rules.key(each) for each in wanted]


def header_of(headers: Headers, name: str) -> str:
    """The one value that a header has. Servers hand on bytes that are no text as what cannot be encoded."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    values = [value for given, value in pairs if given.lower() == name]
    if not values or not values[0].strip():
        raise BadWebhook(f"it has no header {name}")
    if len(values) > 1:
        raise BadWebhook(f"it has more than one header {name}")
    value = values[0].strip()
    if len(value) > LONGEST_HEADER:
        raise BadWebhook(f"its header {name} is longer than {LONGEST_HEADER} characters")
    if not (value.isascii() and value.isprintable()):
        raise BadWebhook(f"its header {name} has something else than plain ASCII in it")
    return value


def _seconds(name: str, text: str) -> int:
    if not text.isdigit() or len(text) > 11:
        raise BadWebhook(f"the time in its header {name} is not a whole number of seconds since 1970")
    return int(text)


def _check_time(at: int, now: float, tolerance: timedelta) -> None:
    """What is older may be a copy that somebody sends again."""
    late = now - at
    if abs(late) <= tolerance.total_seconds():
        return
    when = "ago" if late > 0 else "in the future, by our clock"
    raise BadWebhook(f"it was signed more than {format_duration(tolerance)} {when}")


def _checked_id(id: object) -> str:
    if not isinstance(id, str) or not id:
        raise BadWebhook("its body has no id")
    if not id.isprintable():
        raise BadWebhook("its id has control characters in it")
    if len(id.encode()) > LONGEST_ID:
        raise BadWebhook(f"its id is longer than {LONGEST_ID} bytes")
    return id
