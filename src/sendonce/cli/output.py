"""What is printed: sentences that wrap, one JSON document, the way of a long command; cleaned of what could steer."""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TypeAlias
from unicodedata import combining, east_asian_width
from urllib.parse import unquote

from sendonce.domain.texts import harmless

if TYPE_CHECKING:
    from sendonce.cli.tables import Table

HIDDEN = "***"
# Shorter ones cannot be told from ordinary letters once they stand outside an address.
SHORTEST = 3
LARGEST_FILE = 1_000_000
_IN_ADDRESS = re.compile(r"(?i)(\bpostgres[\w+]*://[^:/?#@\s]*:)(\S*)(@)")
_IN_OPTIONS = re.compile(r"(?i)(\b(?:ssl)?password=)([^&\s]+)()")
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
# Halves of characters, which no stored text can hold, stand for colours until a line is printed.
_MARKS = {colour: chr(0xDC01 + number) for number, colour in enumerate(_CODES)}
_END = chr(0xDC00)
_PAINT = {ord(mark): f"\x1b[{_CODES[colour]}m" for colour, mark in _MARKS.items()} | {ord(_END): "\x1b[0m"}
_PAINT_MARKS = frozenset(_MARKS.values())
_ANY_MARK = re.compile(f"([{_END}{''.join(_MARKS.values())}])")


class CouldNotLook(Exception):
    """Nobody knows whether something is wrong; the message says why it could not be looked at."""


class OutputFailed(Exception):
    """What was printed could not be written; the message says why."""

    def __init__(self, cause: OSError) -> None:
        why = os.strerror(cause.errno) if cause.errno is not None else str(cause)
        super().__init__(f"the output could not be written: {why}")


class Verbatim(str):
    """A text of lines that is for a program, or to be copied: it is not wrapped."""

    __slots__ = ()


Line: TypeAlias = "str | Verbatim | Table"


def say(line: Line, *, wide: bool = False) -> None:
    """Print a sentence wrapped at the terminal's width, a table that fits into it, or a text as it is."""
    width = 0 if wide else terminal_width()
    if isinstance(line, Verbatim):
        return _print(harmless(line))
    if not isinstance(line, str):
        return _print("\n".join(_painted(each) for each in line.lines(width)))
    return _print("\n".join(_painted(each) for each in wrapped(line, width)))


def say_all(lines: Iterable[Line], *, wide: bool = False) -> None:
    """Print one after the other."""
    for line in lines:
        say(line, wide=wide)


def say_json(value: object, *, indent: int | None = 2) -> None:
    """Print one JSON document: rows under their own field names, times in ISO 8601."""
    from sendonce.admin.text import plain

    _print(json.dumps(_cleaned(plain(value)), indent=indent, ensure_ascii=True, allow_nan=False))


def fields_of(row: object, *, without: frozenset[str] = frozenset()) -> dict[str, object]:
    """Return a row for JSON, to which more is added."""
    from sendonce.admin.text import plain

    shown = plain(row, without=without)
    return shown if isinstance(shown, dict) else {}


def warn(sentence: str) -> None:
    """Print a line to standard error, beside what the command prints."""
    print(f"sendonce: {harmless(sentence)}".replace("\n", " "), file=sys.stderr)


def paint(text: str, colour: str) -> str:
    """Mark a text to be printed in a colour, on a terminal that wants colours."""
    return f"{_MARKS[colour]}{text}{_END}" if has_colours() else text


def has_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def wrapped(text: str, width: int) -> list[str]:
    """Break a sentence between words into lines of at most `width` (0: any), the others a little further in."""
    if not width or display_width(text) <= width:
        return [text]
    indent = len(text) - len(text.lstrip(" "))
    lines, further = [], " " * (indent + 4)
    line = ""
    for word in re.findall(r" *[^ ]+", text):
        if line and display_width(line + word) > width:
            lines.append(line)
            line = further + word.lstrip(" ")
        else:
            line += word
    return [*lines, line]


def display_width(text: str) -> int:
    """Return how many places the text takes on a terminal."""
    return len(text) if text.isascii() else sum(places(character) for character in text)


def places(character: str) -> int:
    """Return how many places one character takes: none, one or two."""
    if combining(character) or character == _END or character in _PAINT_MARKS:
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def terminal_width() -> int:
    """Return the terminal's width, or COLUMNS; 0 when there is none."""
    return get_terminal_size(fallback=(0, 0)).columns


def _print(text: str) -> None:
    try:
        print(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error) from None


def _painted(line: str) -> str:
    """Clean a line, and turn the marks that `paint` has set into colours."""
    if not has_colours():
        return harmless(line.replace("\n", " "))
    parts = _ANY_MARK.split(line.replace("\n", " "))
    return "".join(each.translate(_PAINT) if _ANY_MARK.fullmatch(each) else harmless(each) for each in parts)


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, dict):
        return {harmless(name): _cleaned(each) for name, each in value.items()}
    return [_cleaned(each) for each in value] if isinstance(value, list) else value


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
