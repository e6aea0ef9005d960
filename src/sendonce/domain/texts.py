"""Texts from outside, made safe to store and to print, and length-prefixed hashes of them: the provider token."""

import hashlib
import re
from collections.abc import Sequence
from difflib import get_close_matches

CODE_LENGTH = 100
MESSAGE_LENGTH = 500
RESPONSE_LENGTH = 1000
ID_LENGTH = 500
# Controls (but tab and line feed), C1, overrides of the direction, line separators, and halves of characters.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]"
)


def clean(text: object, limit: int) -> str:
    """The text with what a database cannot hold replaced, at most `limit` characters of it."""
    return storable((text if isinstance(text, str) else _as_text(text))[:limit])


def storable(text: str) -> str:
    """The whole text with what a database cannot hold replaced: NUL characters and halves of others."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


def nearest(word: str, known: Sequence[str]) -> str:
    """Say what was meant by a word that nobody knows, or what there is."""
    if close := get_close_matches(word, known, n=1):
        return f"do you mean {close[0]}?"
    return f"there are: {', '.join(known)}"


def harmless(text: str) -> str:
    """The text without what could steer a terminal, or change the direction in which a text is read."""
    return text if text.isprintable() else _STEERING.sub("\N{REPLACEMENT CHARACTER}", text)


def digest(*parts: str) -> bytes:
    """SHA-256 over the parts, each with its length before it, so that no two lists of parts look the same."""
    encoded = [part.encode() for part in parts]
    return hashlib.sha256(b"".join([b"%d:%b" % (len(part), part) for part in encoded])).digest()


def _as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


TOKEN_LENGTH = 40


def provider_token(namespace: str, tenant: str, type: str, key: str, destination: str, corrections: int) -> str:
    """40 hexadecimal digits over the intent. Never the generation or a row id: those change on a restore."""
    return digest(namespace, tenant, type, key, destination, str(corrections)).hex()[:TOKEN_LENGTH]
