"""Passwords in database addresses, kept out of everything that is printed."""

import os
import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

HIDDEN = "***"
# Shorter ones cannot be told from ordinary letters once they stand outside an address.
SHORTEST = 3
_IN_ADDRESS = re.compile(r"(?i)(\bpostgres[\w+]*://[^:/?#@\s]*:)(\S*)(@)")
_IN_OPTIONS = re.compile(r"(?i)(\b(?:ssl)?password=)([^&\s]+)()")


def scrub(text: str, arguments: Sequence[str]) -> str:
    """The text without the passwords that the command line or the environment brought."""
    for shape in (_IN_ADDRESS, _IN_OPTIONS):
        text = shape.sub(rf"\g<1>{HIDDEN}\g<3>", text)
    sources = [*arguments, os.environ.get("SENDONCE_DATABASE", "")]
    for password in sorted(_passwords(sources), key=len, reverse=True):
        text = text.replace(password, HIDDEN)
    return text


def _passwords(sources: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for source in sources:
        for shape in (_IN_ADDRESS, _IN_OPTIONS):
            for match in shape.finditer(source):
                found |= {match[2], unquote(match[2])}
    return {password for password in found if len(password) >= SHORTEST}
