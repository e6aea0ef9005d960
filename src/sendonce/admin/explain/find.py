"""Find what a person means by an id, a key or a token."""

import re
from dataclasses import dataclass

from sendonce.admin.advice import Advice
from sendonce.domain.texts import TOKEN_LENGTH
from sendonce.errors import NotFound
from sendonce.store.readers import ReadStore
from sendonce.store.records import DeliveryRow, EventRow

LARGEST_ID = 2**63 - 1
_NAMED = re.compile(r"(event|delivery|dead-letter|key|token):(.+)", re.DOTALL)
_SHORT = re.compile(r"([ed])([0-9]{1,19})", re.ASCII)
_TOKEN = re.compile(rf"[0-9a-f]{{{TOKEN_LENGTH}}}", re.ASCII)
_KINDS = {"e": "event", "d": "delivery"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """What was found: one delivery, or events with all of theirs; and what else the words could mean."""

    delivery: DeliveryRow | None = None
    events: tuple[EventRow, ...] = ()
    notes: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()


async def find(store: ReadStore, wanted: str) -> Meant:
    """What `wanted` names. A plain number is a delivery first, then an event, then a key; else NotFound."""
    text = wanted.strip()
    if named := _NAMED.fullmatch(text):
        found = await _named(store, named[1], named[2])
    elif is_id(text):
        found = await _number(store, int(text))
    elif short := _SHORT.fullmatch(text):
        found = await _named(store, _KINDS[short[1]], short[2]) or await _named(store, "key", text)
    else:
        found = None
    found = found or await _named(store, "key", text)
    if found is None and _TOKEN.fullmatch(text.lower()):
        found = await _named(store, "token", text)
    if found is None:
        raise NotFound(f"nothing has the id, key or token {_shown(text)}")
    return found


def is_id(text: str) -> bool:
    """True for a whole number that a row can have."""
    return text.isascii() and text.isdecimal() and len(text) <= 19 and 1 <= int(text) <= LARGEST_ID


async def _named(store: ReadStore, kind: str, text: str) -> Meant | None:
    if kind == "key":
        events = await store.events_by_key(text) or await _requested(store, text)
        return Meant(events=tuple(events)) if events else None
    if kind == "token":
        return await _with_token(store, text.lower()) if _TOKEN.fullmatch(text.lower()) else None
    if not is_id(text):
        return None
    if kind == "event":
        event = await store.event(int(text))
        return Meant(events=(event,)) if event else None
    if kind == "dead-letter":
        letter = await store.dead_letter(int(text))
        delivery = await store.delivery(letter.delivery_id) if letter else None
    else:
        delivery = await store.delivery(int(text))
    return Meant(delivery=delivery) if delivery else None


async def _with_token(store: ReadStore, token: str) -> Meant | None:
    """Return the delivery with this token among the newest, which are all that one look is long enough for."""
    page = await store.delivery_by_token(token)
    if page:
        return Meant(delivery=page[0])
    if page.next_before is not None:
        raise NotFound(
            f"nothing from delivery {page.next_before} on has the token {token}; older ones were not looked at"
        )
    return None


async def _requested(store: ReadStore, key: str) -> list[EventRow]:
    """The events of the requests that were made with this key."""
    found = [await store.event(each.event_id) for each in await store.requests_by_key(key)]
    return [event for event in found if event is not None]


async def _number(store: ReadStore, number: int) -> Meant | None:
    delivery, event = await store.delivery(number), await store.event(number)
    known = {delivery.event_id if delivery else None, event.id if event else None}
    keyed = [each for each in await store.events_by_key(str(number)) if each.id not in known]
    notes, advice = [], []
    if delivery and event and delivery.event_id != number:
        notes.append(f"this is delivery {number}, and there is an event {number}")
        advice.append(Advice(verb="explain", why=f"see event {number} with", id=number, of="event"))
    if keyed and (delivery or event):
        notes.append(f"an event with the key {number} is another one")
        advice.append(Advice(verb="explain", why=f"see the key {number} with", id=number, of="key"))
    if delivery:
        return Meant(delivery=delivery, notes=tuple(notes), advice=tuple(advice))
    if event:
        notes = [f"there is no delivery {number}; this is event {number}", *notes]
        return Meant(events=(event,), notes=tuple(notes), advice=tuple(advice))
    return Meant(events=tuple(keyed)) if keyed else None


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 80 else repr(text[:77] + "…")
