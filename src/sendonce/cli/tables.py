"""Tables for people: aligned, cut to the terminal's width where there is one; and how rows look everywhere."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from sendonce.admin.text import dated, one_line, relative, stamp
from sendonce.cli.output import display_width, paint, places
from sendonce.domain.deliveries import DeliveryState

if TYPE_CHECKING:
    from sendonce.store.filters import Page
    from sendonce.store.records import DeliveryRow

Row = TypeVar("Row")
GAP = "  "
NARROWEST = 8
_COLOURS = {
    DeliveryState.COMPLETED: "green",
    DeliveryState.DEAD_LETTERED: "red",
    DeliveryState.PENDING_RETRY: "yellow",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One text, and its colour if it has one. An address is cut in its middle: both its ends tell something."""

    text: str
    colour: str | None = None
    is_address: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under their heads."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def lines(self, width: int, painter: Callable[[str, str], str] = paint) -> list[str]:
        """Return the lines, none wider than `width` (0: as wide as needed)."""
        table = [
            [Cell(head, "bold") for head in self.heads],
            *([Cell(one_line(c.text, 2000), c.colour, c.is_address) for c in row] for row in self.rows),
        ]
        columns = range(len(self.heads))
        widths = fit([max(display_width(row[column].text) for row in table) for column in columns], width)
        return [_line(row, widths, painter) for row in table]


def fit(widths: Sequence[int], total: int) -> list[int]:
    """Return column widths that fit into `total` (0: any): the widest column gives first, none below NARROWEST."""
    fitted = list(widths)
    while total and sum(fitted) + len(GAP) * (len(fitted) - 1) > total:
        widest = max(range(len(fitted)), key=fitted.__getitem__)
        if fitted[widest] <= NARROWEST:
            break
        fitted[widest] -= 1
    return fitted


def cut(text: str, width: int) -> str:
    """Return the text in at most `width` places, its end as … if it was longer."""
    if display_width(text) <= width:
        return text
    return _beginning(text, width - 1) + "…"


def cut_middle(text: str, width: int) -> str:
    """Return the text in at most `width` places, its middle as … if it was longer."""
    if display_width(text) <= width:
        return text
    first = _beginning(text, width // 2)
    last = _beginning(text[::-1], width - 1 - display_width(first))
    return f"{first}…{last[::-1]}"


def listed(page: "Page[Row]", table: Callable[["Page[Row]"], Table], what: str, limit: int) -> "Iterator[str | Table]":
    """Yield the rows of a list, how far back it looked where that is not obvious, and how to go on."""
    if page:
        yield table(page)
    else:
        yield f"no {what} match" + ("" if page.next_before is None else " among the newest")
    if page.next_before is not None:
        looked = ""
        if len(page) < limit and page.looked_back_to is not None:
            looked = f"looked back to {stamp(page.looked_back_to)}; "
        yield paint(f"{looked}older ones: --before {page.next_before}", "dim")


def older(page: "Page[Row]") -> Iterator[str]:
    """Yield how to go on where not all is shown."""
    if page.next_before is not None:
        yield paint(f"older ones: --before {page.next_before}", "dim")


def when(moment: datetime | None, now: datetime) -> Cell:
    return Cell("" if moment is None else relative(moment, now))


def address(text: str) -> Cell:
    return Cell(text, is_address=True)


def now() -> datetime:
    return datetime.now(UTC)


def state_cell(delivery: "DeliveryRow") -> Cell:
    """The state, with what a person must know beside it."""
    doubt = ", in doubt" if delivery.in_doubt and delivery.status is not DeliveryState.COMPLETED else ""
    parked = ", parked" if delivery.parked_on else ""
    return Cell(f"{delivery.status}{doubt}{parked}", "yellow" if doubt else _COLOURS.get(delivery.status))


def field_lines(fields: Iterable[tuple[str, object]], at: datetime, indent: str = "") -> Iterator[str]:
    """Yield name and value, one pair a line; what is not set is left out."""
    shown = [(name, _text(value, at)) for name, value in fields if value is not None and value != ""]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        yield f"{indent}{paint(name.ljust(width), 'dim')}  {text}"


def _text(value: object, at: datetime) -> str:
    if isinstance(value, datetime):
        return dated(value, at)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(str(value), 2000)


def _beginning(text: str, width: int) -> str:
    kept, used = "", 0
    for character in text:
        used += places(character)
        if used > width:
            break
        kept += character
    return kept


def _line(row: Sequence[Cell], widths: Sequence[int], painter: Callable[[str, str], str]) -> str:
    parts = []
    for position, (cell, width) in enumerate(zip(row, widths, strict=True)):
        text = (cut_middle if cell.is_address else cut)(cell.text, width)
        padding = "" if position == len(row) - 1 else " " * (width - display_width(text))
        parts.append((painter(text, cell.colour) if cell.colour and text else text) + padding)
    return GAP.join(parts).rstrip()
