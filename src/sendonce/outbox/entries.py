"""What is to be recorded, each key once, and what became of it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from sendonce.domain.events import NewEvent
from sendonce.errors import KeyReused, StoreBusy
from sendonce.sql.queries import split
from sendonce.sql.statements import Database

MOST_EVENTS = 1000
MOST_CHARACTERS = 16_000_000


class Entry(NamedTuple):
    """An event to record, and the digest that tells its content from another's."""

    event: NewEvent
    digest: bytes


class Recorded(NamedTuple):
    """What became of an entry: its row, whether it is new, and how many deliveries were made for it."""

    event_id: int
    is_new: bool
    deliveries: int


class Order(NamedTuple):
    """Entries to record together, and how. `keep_first`: a key used for different content is no error."""

    entries: Sequence[Entry]
    keep_first: bool
    notify: bool


@cache
def queries(database: Database) -> dict[str, str]:
    """Return the statements for one database, by name."""
    return split(files("sendonce.outbox").joinpath("sql", f"{database}.sql").read_text("utf-8"))


def distinct(events: Iterable[NewEvent], *, keep_first: bool) -> tuple[list[Entry], list[int]]:
    """Every key once, and for each event given its place among them."""
    entries: list[Entry] = []
    places: list[int] = []
    first: dict[tuple[str, str, str], int] = {}
    for event in events:
        entry = Entry(event, event.content_digest)
        place = first.setdefault((event.key, event.type, event.tenant), len(entries))
        if place == len(entries):
            entries.append(entry)
        elif entries[place].digest != entry.digest and not keep_first:
            raise key_reused(event, "twice in this batch, with")
        places.append(place)
    return entries, places


def chunks(entries: Iterable[tuple[int, Entry]]) -> Iterator[list[tuple[int, Entry]]]:
    """Numbered entries in portions that a database takes in one statement."""
    chunk: list[tuple[int, Entry]] = []
    characters = 0
    for numbered in entries:
        event = numbered[1].event
        size = len(event.payload) + sum(len(one.content or "") for one in event.destinations)
        if chunk and (len(chunk) == MOST_EVENTS or characters + size > MOST_CHARACTERS):
            yield chunk
            chunk, characters = [], 0
        chunk.append(numbered)
        characters += size
    if chunk:
        yield chunk


def duplicate(entry: Entry, event_id: int, *, is_same: bool, keep_first: bool) -> Recorded:
    """The event that had the key before; KeyReused when it is a different one and that matters."""
    if not is_same and not keep_first:
        raise key_reused(entry.event, "before, for")
    return Recorded(event_id, False, 0)


def key_reused(event: NewEvent, when: str) -> KeyReused:
    return KeyReused(
        f"the key {event.key!r} of {event.type} was used {when} different content or destinations; use a key"
        ' of its own for this event, or say if_different="keep_first" to go by the first one'
    )


def vanished(event: NewEvent) -> StoreBusy:
    return StoreBusy(f"the key {event.key!r} of {event.type} was taken and given up while we looked; try again")
