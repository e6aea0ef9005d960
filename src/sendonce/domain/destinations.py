"""Where to: a URI whose scheme names the channel, parsed and brought to one spelling."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit, urlunsplit

from sendonce.domain.texts import digest
from sendonce.errors import BadDestination

LONGEST = 2000
# The place of a message's token in an address where its receiver can be asked.
TOKEN = "{token}"  # noqa: S105
_PLACE = "0token0"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}", re.ASCII)
_MAILBOX = re.compile(r"[^\s@<>()\[\]\\,;:\"]{1,64}")
_DOMAIN = re.compile(r"(?=.{1,253}$)(?:[^\W_](?:[\w-]{0,61}[^\W_])?)(?:\.[^\W_](?:[\w-]{0,61}[^\W_])?)*")
_HOST = re.compile(r"[A-Za-z0-9._~\-:\[\]%]+")
# Channels to message brokers, each described by profiles: amqp:PROFILE/exchange/key. Their hosts are in settings only.
BROKERS = ("amqp", "nats", "kafka", "redis")
_PORTS = {"http": 80, "https": 443}
KNOWN_SCHEMES = ("https", "http", "mailto", "null")


@runtime_checkable
class TypedDestination(Protocol):
    """A destination that brings its own content, rendered when it is recorded."""

    @property
    def uri(self) -> str: ...

    def content(self) -> str:
        """The message as text: the same for every attempt."""
        ...


@dataclass(frozen=True, slots=True)
class Routed:
    """One destination of one event: its normalised URI, and its own content if it brought any."""

    uri: str
    content: str | None = None

    @property
    def hash(self) -> bytes:
        return destination_hash(self.uri)


def scheme_of(uri: str) -> str:
    """The channel's name: what stands before the first colon."""
    return uri.partition(":")[0]


@lru_cache(maxsize=1000)
def misspelled(scheme: str) -> str | None:
    """The known scheme that is one letter away: left out, added, another one, or two in the wrong order."""
    return next((known for known in KNOWN_SCHEMES if _is_one_letter_from(known, scheme)), None)


@lru_cache(maxsize=10_000)
def place_of(address: str) -> str:
    """Where an address leads to: a host with its port, or else the scheme, for its addresses share one provider.

    Empty for null:, which leads nowhere.
    """
    scheme, _, rest = address.partition(":")
    if scheme == "null":
        return ""
    return rest[2:].partition("/")[0] if rest.startswith("//") else scheme


@lru_cache(maxsize=10_000)
def destination_hash(uri: str) -> bytes:
    """16 bytes that stand for the URI in the unique key."""
    return digest(uri)[:16]


def normalise(uri: str) -> str:
    """The one spelling of a destination, or BadDestination with what is wrong about it."""
    if not isinstance(uri, str):
        raise BadDestination(f"a destination is a URI or a typed destination like Email(…), not {type(uri).__name__}")
    return _normalised(uri)


@lru_cache(maxsize=10_000)
def _normalised(uri: str) -> str:
    text = uri.strip()
    if any(character <= " " or "\x7f" <= character <= "\x9f" or character.isspace() for character in text):
        raise BadDestination("a destination must not contain spaces or control characters")
    # The normal spelling can be longer than the given one: a slash is added, a host becomes ASCII.
    return _fitting(_respelled(_fitting(text)))


def _fitting(text: str) -> str:
    size = len(text.encode("utf-8", "replace"))
    if size > LONGEST:
        raise BadDestination(f"a destination may be {LONGEST} bytes long, not {size}")
    return text


def _respelled(text: str) -> str:
    scheme, colon, rest = text.partition(":")
    scheme = scheme.lower()
    if not colon or not _SCHEME.fullmatch(scheme):
        raise BadDestination(f"{_shown(text)} has no channel; write it like https://… or mailto:ada@example.com")
    if scheme == "subscription":
        raise BadDestination("subscriptions get their deliveries by matching the event's type; name a URI instead")
    if scheme in _PORTS:
        return _normalise_http(scheme, text)
    if scheme == "mailto":
        return _normalise_mailto(rest)
    if (meant := misspelled(scheme)) is not None:
        raise BadDestination(f"{_shown(text)} has no channel: {scheme}: is one letter away from {meant}:; write that")
    if not rest and scheme != "null":
        raise BadDestination(f"{_shown(text)} names a channel but no address")
    _encodable(rest)
    return f"{scheme}:{rest}"


def named(to: "str | TypedDestination | Sequence[str | TypedDestination]") -> "list[str | TypedDestination]":
    """The destinations a caller named, as they are: one, or several."""
    return [to] if isinstance(to, str) or not isinstance(to, Sequence) else list(to)


def route(to: "str | TypedDestination | Sequence[str | TypedDestination]") -> tuple[Routed, ...]:
    """The destinations a caller named, normalised, each once. The same one with two contents is an error."""
    routed: dict[str, Routed] = {}
    for one in named(to):
        if isinstance(one, str):
            found = Routed(normalise(one))
        elif isinstance(one, TypedDestination):
            found = Routed(normalise(one.uri), one.content())
        else:
            raise BadDestination(
                f"a destination is a URI or a typed destination like Email(…), not {type(one).__name__}"
            )
        if routed.setdefault(found.uri, found) != found:
            raise BadDestination(f"{_shown(found.uri)} is named twice with different content")
    return tuple(routed.values())


def _normalise_http(scheme: str, text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BadDestination(f"{_shown(text)} is not a valid {scheme} address") from None
    if not parts.hostname or not text[len(scheme) :].startswith("://"):
        raise BadDestination(f"{_shown(text)} names no host; write {scheme}://host/path")
    if parts.username is not None or parts.password is not None:
        raise BadDestination(
            f"a {scheme} destination must not carry a user name or password: it would be stored and shown"
        )
    if parts.fragment:
        raise BadDestination(f"a {scheme} destination must not have a #fragment: it is never sent")
    host = _ascii_host(parts.hostname)
    if host is not None and ":" in host:
        host = _ipv6(host)
    if host is None:
        raise BadDestination(f"{_shown(parts.hostname)} is not a host name")
    place = f"[{host}]" if ":" in host else host
    if port is not None and port != _PORTS[scheme]:
        place += f":{port}"
    _encodable(text)
    return urlunsplit((scheme, place, parts.path or "/", parts.query, ""))


def _normalise_mailto(rest: str) -> str:
    if "?" in rest:
        raise BadDestination("a mailto: destination is one address; give subject and text with Email(…)")
    mailbox, at, domain = rest.rpartition("@")
    domain = _ascii_host(domain) or ""
    if not at or not _MAILBOX.fullmatch(mailbox) or not _DOMAIN.fullmatch(domain):
        raise BadDestination(f"{_shown('mailto:' + rest)} is not an e-mail address")
    _encodable(rest)
    return f"mailto:{mailbox}@{domain}"


def _is_one_letter_from(known: str, scheme: str) -> bool:
    if scheme in KNOWN_SCHEMES:
        return False
    short, long = sorted((known, scheme), key=len)
    if len(short) == len(long):
        other = [position for position, letter in enumerate(known) if letter != scheme[position]]
        first, last = other[0], other[-1]
        swapped = last == first + 1 and known[first : last + 1] == scheme[last] + scheme[first]
        return len(other) == 1 or swapped
    return any(long[:position] + long[position + 1 :] == short for position in range(len(long)))


def _ascii_host(host: str) -> str | None:
    """The host's one spelling; None when it is no host name."""
    try:
        plain = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return None
    plain = plain.lower().removesuffix(".")
    return plain if _HOST.fullmatch(plain) and "" not in plain.split(".") else None


def _ipv6(host: str) -> str | None:
    """The one spelling of an IPv6 address, which is also what limits per host go by; None when it is none.

    One that stands for an IPv4 address is written as that. A zone (`%25eth0`) says something of a link-local address
    alone; another one is the same host with every zone, so it is written without.
    """
    try:
        address = IPv6Address(host)
    except ValueError:
        return None
    if not address.is_link_local:
        address = IPv6Address(int(address))
    return str(address.ipv4_mapped or address)


def _encodable(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadDestination("a destination must be valid Unicode text") from None


def _shown(text: str) -> str:
    """Return a destination as an error shows it: cut short, without the user and password before an @."""
    before, _, after = text.rpartition("@")
    scheme, colon, user = before.partition(":")
    if colon and (":" in user or scheme.lower() != "mailto"):
        text = f"{scheme}:…@{after}"
    return repr(text if len(text) <= 80 else text[:77] + "…")


def normalise_ask(ask: str) -> str:
    """An address where a receiver can be asked, in its one spelling; BadDestination says what is wrong with it."""
    head, _, rest = ask.partition("://")
    if head.lower() not in ("http", "https"):
        raise BadDestination("an address to ask at begins with https:// or http://")
    after_host = re.search(r"[/?]", rest)
    if ask.count(TOKEN) != 1 or _PLACE in ask or after_host is None or rest.index(TOKEN) < after_host.start():
        raise BadDestination(f"an address to ask at has {TOKEN} in it once, after the host, where the token belongs")
    try:
        return normalise(ask.replace(TOKEN, _PLACE)).replace(_PLACE, TOKEN)
    except BadDestination as error:
        raise BadDestination(f"an address to ask at: {error}") from None
