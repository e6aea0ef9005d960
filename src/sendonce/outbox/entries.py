"""An event as the caller writes it down, checked and rendered, each key once, and what became of it."""

import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from sendonce.domain.events import UNIQUE, Key, NewEvent, To, has_room, new_event
from sendonce.domain.policies import IfUnsure
from sendonce.errors import BadEvent, KeyReused, StoreBusy
from sendonce.sql.queries import Database, split


def with_trace(headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """The caller's headers with the current span's beside them; a trace that the caller names stays."""
    if headers is not None and not isinstance(headers, Mapping):
        raise BadEvent(f"headers must be texts by name, not a {type(headers).__name__}")
    trace = trace_headers()
    if not trace or any(str(name).lower() == "traceparent" for name in headers or ()):
        return headers
    traced = {**trace, **(headers or {})}
    # A trace is for the reader's comfort: it must not be why something cannot be recorded.
    return traced if has_room(traced) else headers


def trace_headers() -> dict[str, str]:
    """`traceparent` and `tracestate` of the current span; nothing without one."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return {}
    span = api.get_current_span().get_span_context()
    if not span.is_valid:
        return {}
    headers = {"traceparent": f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"}
    if state := span.trace_state.to_header():
        headers["tracestate"] = state
    return headers


class Draft(NamedTuple):
    """One event for `publish_many`: `Draft("memo.created", {"id": 7}, key=("memo", 7), to="https://…")`."""

    type: str
    payload: object
    key: Key
    to: To | None
    tenant: str = ""
    subject: str | None = None
    version: int | None = None
    headers: Mapping[str, str] | None = None
    deliver_at: datetime | None = None
    expires_at: datetime | None = None
    if_unsure: IfUnsure | str | None = None

    def __repr__(self) -> str:
        return f"Draft({self.type!r}, …, key={self.key!r})"


def render(draft: Draft, largest_payload: int, most_destinations: int) -> NewEvent:
    """The event, checked and rendered; BadEvent or BadDestination says what to change."""
    return new_event(
        draft.type,
        draft.payload,
        key=f"unique:{secrets.token_hex(16)}" if draft.key is UNIQUE else draft.key,
        to=draft.to,
        tenant=draft.tenant,
        subject=draft.subject,
        version=draft.version,
        headers=with_trace(draft.headers),
        deliver_at=draft.deliver_at,
        expires_at=draft.expires_at,
        if_unsure=draft.if_unsure,
        largest_payload=largest_payload,
        most_destinations=most_destinations,
    )


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
