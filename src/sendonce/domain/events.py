"""An event: an immutable fact with an idempotency key, checked and rendered before anything is written."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from sendonce.domain.destinations import Routed, TypedDestination, named, route
from sendonce.domain.policies import IfUnsure
from sendonce.domain.texts import digest
from sendonce.errors import BadEvent

LONGEST_TYPE = 128
LONGEST_KEY = 500
LONGEST_TENANT = 200
LARGEST_PAYLOAD = 1_000_000
DEEPEST_PAYLOAD = 100
# Of every event that waits to be sent the worker holds them in memory, once for each destination.
LARGEST_HEADERS = 16_384
MOST_HEADERS = 64
MOST_DESTINATIONS = 10_000
# A day from the ends of the calendar: what lies between them can be shown in every time zone.
_FIRST_MOMENT, _LAST_MOMENT = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
_TYPE = re.compile(r"[A-Za-z0-9_]+(?:[.:/-][A-Za-z0-9_]+)*", re.ASCII)
_PATTERN = re.compile(r"\*|[A-Za-z0-9_]+(?:[.:/-][A-Za-z0-9_]+)*(?:\.\*)?", re.ASCII)


class _Unique:
    """The type of UNIQUE."""

    def __repr__(self) -> str:
        return "sendonce.UNIQUE"


UNIQUE: Final = _Unique()
"""Given as `key` by a caller who wants no deduplication: every call records a new event."""

KeyPart: TypeAlias = str | int | UUID | date
Key: TypeAlias = str | int | UUID | tuple[KeyPart, ...] | _Unique
To: TypeAlias = str | TypedDestination | Sequence[str | TypedDestination]


class NewEvent(NamedTuple):
    """All that is written for one event, rendered: texts only, nothing left to go wrong but the database."""

    tenant: str
    type: str
    key: str
    payload: str
    destinations: tuple[Routed, ...]
    subject: str | None = None
    version: int | None = None
    headers: str | None = None
    deliver_at: datetime | None = None
    expires_at: datetime | None = None
    if_unsure: IfUnsure | None = None

    @property
    def content_digest(self) -> bytes:
        """16 bytes over what makes two publishes of one key the same: content and named destinations."""
        parts = [self.payload, self.subject or "", "" if self.version is None else str(self.version)]
        named = self.destinations
        for one in sorted(named, key=lambda each: each.uri) if len(named) > 1 else named:
            parts += [one.uri, "-" if one.content is None else "+" + one.content]
        return digest(*parts)[:16]

    @property
    def patterns(self) -> tuple[str, ...]:
        return patterns_of(self.type)


def digest_of_stored(payload: str, subject: str | None, version: int | None, named: str) -> bytes:
    """The content digest of what a database has kept. `named`: destinations as JSON, [[uri, content or null], …]."""
    destinations = tuple(Routed(uri, content) for uri, content in json.loads(named))
    return NewEvent("", "", "", payload, destinations, subject, version).content_digest


def new_event(
    type: str,
    payload: object,
    *,
    key: Key,
    to: To | None,
    tenant: str = "",
    subject: str | None = None,
    version: int | None = None,
    headers: Mapping[str, str] | None = None,
    deliver_at: datetime | None = None,
    expires_at: datetime | None = None,
    if_unsure: IfUnsure | str | None = None,
    largest_payload: int = LARGEST_PAYLOAD,
    most_destinations: int = MOST_DESTINATIONS,
) -> NewEvent:
    """Check and render everything a caller gave; BadEvent or BadDestination says what to change.

    `to=None` is for the subscriptions that match and for nobody else; nothing named at all is a mistake.
    """
    rendered = render_payload(payload)
    size = _size(rendered)
    if size > largest_payload:
        raise BadEvent(
            f"the payload is {size} bytes, more than the {largest_payload} allowed; store it and send a reference"
        )
    deliver_at, expires_at = _moment("deliver_at", deliver_at), _moment("expires_at", expires_at)
    if deliver_at is not None and expires_at is not None and expires_at <= deliver_at:
        raise BadEvent("expires_at must be later than deliver_at")
    return NewEvent(
        tenant=_text("tenant", tenant, LONGEST_TENANT),
        type=check_type(type),
        key=render_key(key),
        payload=rendered,
        destinations=_sized(route(_named(to, most_destinations)), largest_payload),
        subject=None if subject is None else _text("subject", subject, LONGEST_KEY),
        version=_version(version),
        headers=_headers(headers),
        deliver_at=deliver_at,
        expires_at=expires_at,
        if_unsure=_if_unsure(if_unsure),
    )


def check_type(type: str) -> str:
    """An event type: words joined by . : / or -, like memo.created."""
    if not isinstance(type, str) or not _is_type(type):
        raise BadEvent(
            f"an event type is up to {LONGEST_TYPE} letters, digits and _ in words joined by . : / or -,"
            f" like memo.created; not {_shown(type)}"
        )
    return type


@lru_cache(maxsize=1000)
def _is_type(type: str) -> bool:
    return len(type) <= LONGEST_TYPE and _TYPE.fullmatch(type) is not None


def check_pattern(pattern: str) -> str:
    """What a subscription listens to: an exact type, a family like order.*, or * for all."""
    if not isinstance(pattern, str) or len(pattern) > LONGEST_TYPE + 2 or not _PATTERN.fullmatch(pattern):
        raise BadEvent(f"a subscription listens to a type, a family like order.* or *; not {_shown(pattern)}")
    return pattern


@lru_cache(maxsize=1000)
def patterns_of(type: str) -> tuple[str, ...]:
    """Every pattern that matches this type: order.created gives order.created, order.* and *."""
    words = type.split(".")
    families = [".".join(words[:count]) + ".*" for count in range(len(words) - 1, 0, -1)]
    return (type, *families, "*")


def render_key(key: Key) -> str:
    """The idempotency key as text; parts of a tuple are joined so that no two tuples give the same text."""
    if isinstance(key, _Unique):
        raise BadEvent("sendonce.UNIQUE must be given as the whole key")
    if isinstance(key, tuple):
        if not key:
            raise BadEvent("key is an empty tuple; name what makes this event the same event again")
        parts = [_key_part(f"key[{position}]", part) for position, part in enumerate(key)]
        return _text("key", "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts), LONGEST_KEY)
    return _key_part("key", key)


def render_payload(payload: object) -> str:
    """The payload as JSON text: sorted keys, so that the same content is always the same bytes."""
    try:
        text = _JSON.encode(payload)
        _size(text)
    except RecursionError:
        raise BadEvent("the payload is nested too deeply to be JSON, or contains itself") from None
    except UnicodeEncodeError:
        raise BadEvent("the payload holds text that is not valid Unicode (a lone surrogate)") from None
    except (TypeError, ValueError) as error:
        raise BadEvent(f"the payload is not JSON: {_first_line(error)}") from None
    if text.count("[") + text.count("{") > DEEPEST_PAYLOAD and _depth(text) > DEEPEST_PAYLOAD:
        raise BadEvent(f"the payload is nested more than {DEEPEST_PAYLOAD} levels deep")
    return text


def _size(text: str) -> int:
    """The text's length in UTF-8; UnicodeEncodeError when it cannot be written so."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def _plain(value: object) -> object:
    """What json does not know: the types a backend's payloads are made of."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    raise TypeError(f"it holds a {type(value).__name__}; turn it into text, numbers, lists or dicts first")


_JSON = json.JSONEncoder(
    default=_plain, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
)  # fmt: skip


def _depth(text: str) -> int:
    depth = deepest = 0
    quoted = escaped = False
    for character in text:
        if quoted:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                quoted = False
        elif character == '"':
            quoted = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _key_part(name: str, part: object) -> str:
    if part is None:
        raise BadEvent(f"{name} is None; a key needs a value there (an id that is not flushed yet?)")
    if isinstance(part, bool) or not isinstance(part, str | int | UUID | date):
        raise BadEvent(f"{name} is a {type(part).__name__}; a key is made of text, whole numbers, UUIDs and dates")
    text = part.isoformat() if isinstance(part, date) else str(part)
    return _text(name, text, LONGEST_KEY, empty=False)


def _text(name: str, text: str, longest: int, *, empty: bool = True) -> str:
    if not isinstance(text, str):
        raise BadEvent(f"{name} must be text, not {type(text).__name__}")
    try:
        size = _size(text)
    except UnicodeEncodeError:
        raise BadEvent(f"{name} is not valid Unicode text") from None
    if size > longest:
        raise BadEvent(f"{name} is {size} bytes, more than the {longest} allowed")
    if "\0" in text:
        raise BadEvent(f"{name} must not contain a NUL character")
    if not empty and not text:
        raise BadEvent(f"{name} is empty; name what makes this event the same event again")
    return text


def _version(version: int | None) -> int | None:
    if version is not None and (isinstance(version, bool) or not isinstance(version, int) or not 0 <= version < 2**63):
        raise BadEvent("version must be a whole number, zero or above")
    return version


def _headers(headers: Mapping[str, str] | None) -> str | None:
    if not headers:
        return None
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name:
            raise BadEvent("headers must be texts by name")
        if any(character in name + value for character in "\r\n\0"):
            raise BadEvent(f"header {_shown(name)} must be one line")
    if not has_room(headers):
        raise BadEvent(
            f"headers may be {MOST_HEADERS}, with {LARGEST_HEADERS} bytes together; put what is more into the payload"
        )
    return json.dumps(dict(headers), sort_keys=True, ensure_ascii=True)


def has_room(headers: Mapping[str, str]) -> bool:
    """Return whether these headers are few and short enough to be recorded."""
    size = sum(len(str(part).encode("utf-8", "replace")) for pair in headers.items() for part in pair)
    return len(headers) <= MOST_HEADERS and size <= LARGEST_HEADERS


def _named(to: To | None, most: int) -> Sequence[str | TypedDestination]:
    """Return the named destinations. The caller decides whether an event goes out, not what happens to match."""
    if to is None:
        return ()
    destinations = named(to)
    if not destinations:
        raise BadEvent("to is empty; name a destination, or say to=None: to the subscriptions that match, if any")
    if len(destinations) > most:
        raise BadEvent(
            f"an event may name {most} destinations, not {len(destinations)}; publish several events, or allow more"
            " with Outbox(most_destinations=…)"
        )
    return destinations


def _moment(name: str, moment: datetime | None) -> datetime | None:
    """The moment in UTC. One that cannot be shown in every time zone would be recorded, and fail whoever reads it."""
    if moment is None:
        return None
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise BadEvent(f"{name} must be a datetime with a time zone, such as datetime.now(UTC) + timedelta(hours=1)")
    try:
        found = moment.astimezone(UTC)
    except OverflowError:
        found = None
    if found is None or not _FIRST_MOMENT <= found < _LAST_MOMENT:
        raise BadEvent(f"{name} must lie between the years 1 and 9999 in UTC, a day from either end")
    return found


def _if_unsure(value: IfUnsure | str | None) -> IfUnsure | None:
    try:
        return None if value is None else IfUnsure(value)
    except ValueError:
        raise BadEvent(f"if_unsure must be resend or hold, not {_shown(value)}") from None


def _sized(destinations: tuple[Routed, ...], largest: int) -> tuple[Routed, ...]:
    for one in destinations:
        if one.content is not None:
            _text(f"the content for {_shown(one.uri)}", one.content, largest)
    return destinations


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
