"""How rows look in tables and in `show`: the same colours and words everywhere."""

from collections.abc import Iterable
from datetime import UTC, datetime

from sendonce.admin.text import dated, one_line
from sendonce.cli.output import paint, say
from sendonce.cli.tables import Cell
from sendonce.domain.deliveries import DeliveryState
from sendonce.store.records import DeliveryRow

_COLOURS = {
    DeliveryState.COMPLETED: "green",
    DeliveryState.DEAD_LETTERED: "red",
    DeliveryState.PENDING_RETRY: "yellow",
}


def now() -> datetime:
    return datetime.now(UTC)


def state_cell(delivery: DeliveryRow) -> Cell:
    """The state, with what a person must know beside it."""
    doubt = ", in doubt" if delivery.in_doubt and delivery.status is not DeliveryState.COMPLETED else ""
    parked = ", parked" if delivery.parked_on else ""
    return Cell(f"{delivery.status}{doubt}{parked}", "yellow" if doubt else _COLOURS.get(delivery.status))


def show_fields(fields: Iterable[tuple[str, object]], at: datetime, indent: str = "") -> None:
    """Print name and value, one pair a line; what is not set is left out."""
    shown = [(name, _text(value, at)) for name, value in fields if value is not None and value != ""]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        say(f"{indent}{paint(name.ljust(width), 'dim')}  {text}")


def _text(value: object, at: datetime) -> str:
    if isinstance(value, datetime):
        return dated(value, at)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(str(value), 2000)
