"""What is to be seen at one moment, as lines of text, and where it is shown."""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TextIO, TypeAlias

from sendonce.devtools.demo.observer import Progress
from sendonce.devtools.demo.processes import NOTHING, Counters
from sendonce.devtools.demo.shop import ORDERS, Naive, Side
from sendonce.domain.deliveries import DeliveryState


@dataclass(frozen=True, slots=True)
class StoryStep:
    """Something that has happened, and when."""

    seconds: float
    text: str

    def __str__(self) -> str:
        return f"{self.seconds:5.1f} s  {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """`is_up` is the receiver's, and so are the `tallies`."""

    seconds: float = 0.0
    committed: int = 0
    rolled_back: int = 0
    progress: Progress = field(default_factory=lambda: Progress(states=Counter()))
    naive: Naive = field(default_factory=Naive)
    is_up: bool = False
    tallies: Counters = field(default_factory=lambda: NOTHING)
    story: tuple[StoryStep, ...] = ()

    @property
    def placed(self) -> int:
        return self.committed + self.rolled_back


Paint: TypeAlias = Callable[[str, str], str]
WIDEST = 100
LABEL = 14
NUMBER = 4
COLOURS = {
    DeliveryState.PENDING: "",
    DeliveryState.IN_PROGRESS: "cyan",
    DeliveryState.PENDING_RETRY: "yellow",
    DeliveryState.COMPLETED: "green",
    DeliveryState.DEAD_LETTERED: "red",
}


class Span(NamedTuple):
    """A piece of a line in one colour."""

    text: str
    colour: str = ""


class Gauge(NamedTuple):
    """A number with a name, and a bar as long as its share of all orders."""

    name: str
    amount: int
    colour: str = ""


def render(view: View, width: int, height: int, paint: Paint) -> list[str]:
    """The picture, at most `height` lines of at most `width` places: the newest of the story fill what is left."""
    width = min(width, WIDEST)
    lines = [_title(view, width), [], _orders(view, width), [], *_outboxes(view, width), [], *_receiver(view), []]
    room = max(height - len(lines), 1)
    lines += _story(view, room)
    return [draw(line, width, paint) for line in lines[:height]]


def draw(line: Sequence[Span], width: int, paint: Paint) -> str:
    """One line, cut to the width."""
    drawn, left = [], width
    for text, colour in line:
        shown = text[:left]
        left -= len(shown)
        drawn.append(paint(shown, colour) if colour and shown.strip() else shown)
    return "".join(drawn).rstrip()


def _title(view: View, width: int) -> list[Span]:
    name, rest, clock = "sendonce demo", "  one run, two outboxes, the same troubles", f"{view.seconds:.1f} s"
    gap = max(width - len(name) - len(rest) - len(clock), 2)
    return [Span(name, "bold"), Span(rest, "dim"), Span(" " * gap), Span(clock, "dim")]


def _orders(view: View, width: int) -> list[Span]:
    total = len(ORDERS)
    said = f" {view.placed:2} of {total}: {view.committed} committed, {view.rolled_back} rolled back"
    room = max(width - 2 - LABEL - len(said), 10)
    full = room * view.placed // total
    return [Span(f"  {'orders':<{LABEL}}"), Span("█" * full, "bold"), Span("░" * (room - full), "dim"), Span(said)]


def _outboxes(view: View, width: int) -> list[list[Span]]:
    ours = [Gauge(state, view.progress.states[state], COLOURS[state]) for state in DeliveryState]
    ours.append(Gauge("in doubt", view.progress.in_doubt, "yellow"))
    naive = view.naive
    theirs = [
        Gauge("waiting", naive.waiting),
        Gauge("marked sent", naive.sent, "green"),
        Gauge("given up", naive.given_up, "red"),
    ]
    theirs += [Gauge("", 0)] * (len(ours) - len(theirs))
    half = width // 2
    heads = [Span(f"  {'sendonce':<{half - 2}}", "bold"), Span("  naive outbox", "bold")]
    return [heads, *([*_gauge(one, half), *_gauge(other, half)] for one, other in zip(ours, theirs, strict=True))]


def _gauge(gauge: Gauge, room: int) -> list[Span]:
    if not gauge.name:
        return []
    longest = room - 2 - LABEL - NUMBER - 3
    bar = "█" * -(-gauge.amount * longest // len(ORDERS))
    quiet = "" if gauge.amount else "dim"
    return [
        Span(f"  {gauge.name:<{LABEL}}{gauge.amount:>{NUMBER}} ", quiet),
        Span(f"{bar:<{longest + 2}}", gauge.colour),
    ]


def _receiver(view: View) -> list[list[Span]]:
    ours, theirs = view.tallies[Side.SENDONCE], view.tallies[Side.NAIVE]
    head = "counted by the receiver" if view.is_up else "the receiver is down: nobody listens"
    rows = [
        ("acted upon once", len(ours.acted) - len(ours.doubled), len(theirs.acted) - len(theirs.doubled), ""),
        ("acted upon twice or more", len(ours.doubled), len(theirs.doubled), "red"),
        ("asked about before a repeat", sum(ours.asked.values()), sum(theirs.asked.values()), ""),
        ("found there, and not sent again", sum(ours.found.values()), sum(theirs.found.values()), "green"),
        ("in flight now", ours.in_flight, theirs.in_flight, "cyan"),
    ]
    lines = [[Span(f"  {head:<38}", "bold"), Span("sendonce  naive", "dim")]]
    for name, one, other, colour in rows:
        pair = (Span(f"{amount:>{room}}", colour if amount else "dim") for amount, room in ((one, 8), (other, 7)))
        lines.append([Span(f"  {name:<38}"), *pair])
    return lines


def _story(view: View, room: int) -> list[list[Span]]:
    told = view.story[-room:]
    return [[Span(f"{step}", "bold" if step is view.story[-1] else "dim")] for step in told]


SMALLEST = (64, 21)
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
CLEAR_LINE, CLEAR_BELOW, CLEAR_ALL = "\x1b[K", "\x1b[J", "\x1b[2J\x1b[H"
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Screen(Protocol):
    def tell(self, step: StoryStep) -> None:
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

    def tell(self, step: StoryStep) -> None:
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
        self._story: list[StoryStep] = []
        self._write(HIDE_CURSOR)

    def tell(self, step: StoryStep) -> None:
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
