"""Where the demonstration is shown: a picture that changes in place on a terminal, else a line for each step."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from sendonce.devtools.demo.picture import render
from sendonce.devtools.demo.view import Step, View

SMALLEST = (64, 21)
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
CLEAR_LINE, CLEAR_BELOW, CLEAR_ALL = "\x1b[K", "\x1b[J", "\x1b[2J\x1b[H"
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Screen(Protocol):
    def tell(self, step: Step) -> None:
        """Something has happened."""
        ...

    def show(self, view: View) -> None:
        """This is how it looks now."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was, with the story told."""
        ...


class PlainScreen:
    """One line for each step, nothing that moves."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def tell(self, step: Step) -> None:
        print(step, file=self._out, flush=True)

    def show(self, view: View) -> None:
        """Pictures are for terminals."""

    def close(self) -> None:
        """Nothing was changed."""


class LiveScreen:
    """A picture that is drawn over itself; at the end only the story stays."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._drawn = 0
        self._size = shutil.get_terminal_size()
        self._story: list[Step] = []
        self._write(HIDE_CURSOR)

    def tell(self, step: Step) -> None:
        self._story.append(step)

    def show(self, view: View) -> None:
        size = shutil.get_terminal_size()
        # A line less than there are: the cursor rests below the picture, and nothing scrolls. A last column is left
        # free, because a terminal that wraps there would move everything.
        lines = render(view, size.columns - 1, size.lines - 1, paint)
        back = self._back() if size == self._size else CLEAR_ALL
        self._write(back + "".join(f"{line}{CLEAR_LINE}\n" for line in lines) + CLEAR_BELOW)
        self._drawn, self._size = len(lines), size

    def close(self) -> None:
        told = "".join(f"{step}\n" for step in self._story)
        self._write(self._back() + CLEAR_BELOW + told + SHOW_CURSOR)

    def _back(self) -> str:
        return f"\x1b[{self._drawn}F" if self._drawn else ""

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


@contextmanager
def screen() -> Iterator[Screen]:
    """The screen for this standard output, put in order again at the end, whatever the end is."""
    chosen: Screen = LiveScreen(sys.stdout) if _can_move() else PlainScreen(sys.stdout)
    try:
        yield chosen
    finally:
        chosen.close()


def paint(text: str, colour: str) -> str:
    """The text in a colour, on a terminal that wants colours."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if has_colours() else text


def has_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _can_move() -> bool:
    columns, lines = shutil.get_terminal_size()
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return is_terminal and columns >= SMALLEST[0] and lines >= SMALLEST[1]
