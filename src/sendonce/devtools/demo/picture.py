"""The live table as lines of text. Pure: the same view gives the same picture."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from sendonce.devtools.demo.plan import ORDERS, Side
from sendonce.devtools.demo.view import View
from sendonce.domain.deliveries import DeliveryState

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
