"""How far a long command has come: one line on a terminal that is written anew; elsewhere a line now and then."""

import sys
import time
from datetime import timedelta

from sendonce.domain.durations import format_duration

_BAR_WIDTH = 24
_SAY_SECONDS = 5.0


def progress(text: str) -> None:
    """Write the line anew, on a terminal only; an empty one takes it away."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


class Bar:
    """A bar with what was done, how fast, and how long the rest takes at this pace."""

    def __init__(self, part: float, done: int) -> None:
        self._first_part = part
        self._first_done = done
        self._begun_at = self._said_at = time.monotonic()

    def show(self, part: float, done: int, text: str) -> None:
        """`part` of the way is behind us, from 0 to 1, and `done` is how many were done."""
        now = time.monotonic()
        line = self._line(part, done, text, max(now - self._begun_at, 0.001))
        if sys.stderr.isatty():
            progress(line)
        elif now - self._said_at >= _SAY_SECONDS:
            self._said_at = now
            print(line, file=sys.stderr, flush=True)

    def _line(self, part: float, done: int, text: str, seconds: float) -> str:
        filled = round(_BAR_WIDTH * part)
        bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
        line = f"{bar} {part:4.0%}  {text}, {(done - self._first_done) / seconds:,.0f}/s"
        gone = part - self._first_part
        if gone <= 0 or part >= 1:
            return line
        return f"{line}, {format_duration(timedelta(seconds=round(seconds * (1 - part) / gone)))} left"
