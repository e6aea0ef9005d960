"""Tables for people: aligned, and cut to the terminal's width where there is a terminal."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from unicodedata import combining, east_asian_width

from sendonce.admin.text import one_line, relative
from sendonce.cli.output import paint, say

GAP = "  "
NARROWEST = 8


@dataclass(frozen=True, slots=True)
class Cell:
    """One text, and its colour if it has one."""

    text: str
    colour: str | None = None


def show_table(heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, width: int | None = None) -> None:
    """Print a table. `width` is for tests; else it is the terminal's, and without a terminal nothing is cut."""
    for line in render(heads, rows, terminal_width() if width is None else width, paint):
        say(line)


def render(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], width: int, painter: Callable[[str, str], str]
) -> list[str]:
    """The lines of a table, none wider than `width` (0: as wide as needed)."""
    table = [
        [Cell(head, "bold") for head in heads],
        *([Cell(one_line(c.text, 2000), c.colour) for c in row] for row in rows),
    ]
    widths = fit([max(display_width(row[column].text) for row in table) for column in range(len(heads))], width)
    return [_line(row, widths, painter) for row in table]


def fit(widths: Sequence[int], total: int) -> list[int]:
    """Column widths that fit into `total` (0: any): the widest column gives first, none below NARROWEST."""
    fitted = list(widths)
    while total and sum(fitted) + len(GAP) * (len(fitted) - 1) > total:
        widest = max(range(len(fitted)), key=fitted.__getitem__)
        if fitted[widest] <= NARROWEST:
            break
        fitted[widest] -= 1
    return fitted


def cut(text: str, width: int) -> str:
    """The text in at most `width` places, its end as … if it was longer."""
    if display_width(text) <= width:
        return text
    kept, used = "", 0
    for character in text:
        used += _places(character)
        if used > width - 1:
            break
        kept += character
    return kept + "…"


def display_width(text: str) -> int:
    """How many places the text takes on a terminal."""
    return len(text) if text.isascii() else sum(_places(character) for character in text)


def terminal_width() -> int:
    """The terminal's width, or COLUMNS; 0 when there is none."""
    return shutil.get_terminal_size(fallback=(0, 0)).columns


def when(moment: datetime | None, now: datetime) -> Cell:
    return Cell("" if moment is None else relative(moment, now))


def _places(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _line(row: Sequence[Cell], widths: Sequence[int], painter: Callable[[str, str], str]) -> str:
    parts = []
    for position, (cell, width) in enumerate(zip(row, widths, strict=True)):
        text = cut(cell.text, width)
        padding = "" if position == len(row) - 1 else " " * (width - display_width(text))
        parts.append((painter(text, cell.colour) if cell.colour and text else text) + padding)
    return GAP.join(parts).rstrip()
