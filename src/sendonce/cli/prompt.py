"""What a person at a terminal sees of a long command, and is asked before what is done to many or cannot be undone."""

import sys
import time
from datetime import timedelta

from sendonce.cli.parser import WrongUse
from sendonce.domain.durations import format_duration
from sendonce.domain.texts import harmless

_BAR_WIDTH = 24
_SAY_SECONDS = 5.0


def check_terminal() -> None:
    """WrongUse where there is nobody to ask."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUse("nobody can be asked here: count first with --dry-run, then add --yes")


def agrees() -> bool:
    """Return what the person answers."""
    try:
        return input("go on? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def agrees_by_number(amount: int) -> bool:
    """Return whether the person types the number, which nobody does by mistake."""
    try:
        return input(f"type the number to go on [{amount}]: ").strip().replace(",", "") == str(amount)
    except EOFError:
        return False


def progress(text: str) -> None:
    """Write the line anew, on a terminal only; an empty one takes it away."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{harmless(text)}", end="", file=sys.stderr, flush=True)


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
            print(harmless(line), file=sys.stderr, flush=True)

    def _line(self, part: float, done: int, text: str, seconds: float) -> str:
        filled = round(_BAR_WIDTH * part)
        bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
        line = f"{bar} {part:4.0%}  {text}, {(done - self._first_done) / seconds:,.0f}/s"
        gone = part - self._first_part
        if gone <= 0 or part >= 1:
            return line
        return f"{line}, {format_duration(timedelta(seconds=round(seconds * (1 - part) / gone)))} left"
