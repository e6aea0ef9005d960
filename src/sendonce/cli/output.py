"""What is printed: one JSON document, sentences, or a table; quiet colours on a terminal only."""

import json
import os
import sys
from collections.abc import Iterable

from sendonce.admin.text import plain
from sendonce.cli.failures import OutputFailed

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def say(text: str) -> None:
    """Print a line to standard output."""
    try:
        print(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error) from None


def say_all(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def say_json(value: object, *, without: frozenset[str] = frozenset()) -> None:
    """Print one JSON document: rows under their own field names, times in ISO 8601."""
    say(json.dumps(plain(value, without=without), indent=2, ensure_ascii=True, allow_nan=False))


def warn(sentence: str) -> None:
    """Print a line to standard error, beside what the command prints."""
    print(f"sendonce: {sentence}", file=sys.stderr)


def paint(text: str, colour: str) -> str:
    """The text in a colour, on a terminal that wants colours."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if has_colours() else text


def has_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
