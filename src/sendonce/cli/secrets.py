"""Passwords in database addresses, kept out of everything that is printed."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from urllib.parse import unquote

HIDDEN = "***"
# Shorter ones cannot be told from ordinary letters once they stand outside an address.
SHORTEST = 3
LARGEST_FILE = 1_000_000
_IN_ADDRESS = re.compile(r"(?i)(\bpostgres[\w+]*://[^:/?#@\s]*:)(\S*)(@)")
_IN_OPTIONS = re.compile(r"(?i)(\b(?:ssl)?password=)([^&\s]+)()")


def scrub(text: str, arguments: Sequence[str]) -> str:
    """The text without the passwords that the command line, the environment or the settings file brought."""
    for shape in (_IN_ADDRESS, _IN_OPTIONS):
        text = shape.sub(rf"\g<1>{HIDDEN}\g<3>", text)
    sources = [*arguments, *os.environ.values(), *_settings_files(arguments)]
    for password in sorted(_passwords(sources), key=len, reverse=True):
        text = text.replace(password, HIDDEN)
    return text


def _settings_files(arguments: Sequence[str]) -> Iterator[str]:
    """What stands in the settings files that this command may have read."""
    named = [value for word, value in pairwise(arguments) if word == "--config"]
    named += [word.removeprefix("--config=") for word in arguments if word.startswith("--config=")]
    for name in (*named, os.environ.get("SENDONCE_CONFIG", ""), "sendonce.toml"):
        with suppress(OSError, ValueError), open(name, encoding="utf-8") as file:
            yield file.read(LARGEST_FILE)


def _passwords(sources: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for source in sources:
        for shape in (_IN_ADDRESS, _IN_OPTIONS):
            for match in shape.finditer(source):
                found |= {match[2], unquote(match[2])}
    return {password for password in found if len(password) >= SHORTEST}
