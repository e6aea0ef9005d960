"""Events: what was recorded."""

from sendonce.sql.steps import Steps, one, records, rows
from sendonce.store.filters import Filter, Page, ids_of, look, walk
from sendonce.store.records import EventRow


def events(wanted: Filter) -> Steps[Page[EventRow]]:
    """List events; by status and destination, those that have such a delivery."""

    def matching(ids: list[int], limit: int) -> Steps[list[EventRow]]:
        return records(EventRow, "event_rows", ids=ids, limit=limit, **wanted.criteria)

    return (yield from look(wanted, walk("event_window"), matching, "event_at"))


def event(event_id: int) -> Steps[EventRow | None]:
    """Return one event; None when there is none."""
    return (yield from one(EventRow, "event_rows", ids=[event_id], limit=1, **Filter().criteria))


def events_by_key(key: str) -> Steps[list[EventRow]]:
    """Return the newest events with this key, of any type and tenant."""
    ids = ids_of((yield from rows("event_ids_of_key", key=key)))
    return (yield from records(EventRow, "event_rows", ids=ids, limit=len(ids), **Filter().criteria))


def payload(event_id: int) -> Steps[str | None]:
    """Return an event's payload, apart from its row: a role may look at events without the right to read payloads."""
    found = yield from rows("event_payload", event_id=event_id)
    return found[0][0] if found else None
