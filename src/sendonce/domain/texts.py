"""Texts from outside, made safe to store, and length-prefixed hashes of them, such as the provider token."""

import hashlib
from collections.abc import Sequence
from difflib import get_close_matches

CODE_LENGTH = 100
MESSAGE_LENGTH = 500
RESPONSE_LENGTH = 1000
ID_LENGTH = 500


def clean(text: object, limit: int) -> str:
    """The text with what a database cannot hold replaced, at most `limit` characters of it."""
    return storable((text if isinstance(text, str) else _as_text(text))[:limit])


def storable(text: str) -> str:
    """The whole text with what a database cannot hold replaced: NUL characters and halves of others."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


def nearest(word: str, known: Sequence[str]) -> str:
    """What was meant by a word that nobody knows, or what there is."""
    if close := get_close_matches(word, known, n=1):
        return f"do you mean {close[0]}?"
    return f"there are: {', '.join(known)}"


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
