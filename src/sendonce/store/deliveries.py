"""Deliveries: what is on its way, and what became of it."""

from collections.abc import Sequence
from dataclasses import replace

from sendonce.domain.deliveries import DeliveryState
from sendonce.sql.steps import Steps, one, records, rows
from sendonce.store.filters import DEARER, LAST, SHOWN_OF_ONE, Filter, Page, ids_of, look, narrow, tail, walk
from sendonce.store.operations_log import log, said
from sendonce.store.records import Acted, AttemptRow, DeliveryRow, FindingRow, LeaseRow

# Where the deliveries of a state are found without looking at all the others.
_PLACES = {
    DeliveryState.IN_PROGRESS: ("in_flight_ids",),
    DeliveryState.PENDING: ("due_window", "parked_window"),
    DeliveryState.PENDING_RETRY: ("due_window", "parked_window"),
}


def deliveries(wanted: Filter) -> Steps[Page[DeliveryRow]]:
    """List deliveries; by reason, those that were given up for it."""
    if wanted.status is DeliveryState.DEAD_LETTERED:
        window = walk("dead_letter_window")
    elif wanted.status in _PLACES:
        window = yield from narrow("delivery_window", *_PLACES[DeliveryState(wanted.status)])
    else:
        window = walk("delivery_window")

    def matching(ids: list[int], limit: int) -> Steps[list[DeliveryRow]]:
        return records(DeliveryRow, "delivery_rows", ids=ids, limit=limit, **wanted.criteria)

    sizes = DEARER if wanted.status is DeliveryState.DEAD_LETTERED else ()
    return (yield from look(wanted, window, matching, "delivery_at", sizes=sizes))


def undelivered(tenant: str | None, *, before: int | None = None, limit: int = 50) -> Steps[Page[DeliveryRow]]:
    """List what has not arrived: not finished, or given up and nobody has closed that."""
    window = yield from narrow("delivery_window", "undelivered_places")

    def matching(ids: list[int], limit: int) -> Steps[list[DeliveryRow]]:
        found = ids_of((yield from rows("undelivered_ids", ids=ids, tenant=tenant, limit=limit)))
        return (yield from delivery_rows(found))

    return (yield from look(Filter(before=before, limit=limit), window, matching, "delivery_at"))


def delivery_by_token(token: str, *, before: int | None = None) -> Steps[Page[DeliveryRow]]:
    """Look for the newest delivery with this token: it is computed of each that is looked at, and never stored."""
    name = yield from namespace()

    def matching(ids: list[int], limit: int) -> Steps[list[DeliveryRow]]:
        found = ids_of((yield from rows("delivery_ids_of_token", ids=ids, namespace=name, token=token)))
        return (yield from delivery_rows(found))

    wanted = Filter(before=before, limit=1)
    return (yield from look(wanted, walk("delivery_window"), matching, "delivery_at", sizes=DEARER, spare=0))


def delivery(delivery_id: int) -> Steps[DeliveryRow | None]:
    """Return one delivery; None when there is none."""
    found = yield from delivery_rows([delivery_id])
    return found[0] if found else None


def delivery_rows(ids: list[int]) -> Steps[list[DeliveryRow]]:
    """Return these deliveries, newest first."""
    return records(DeliveryRow, "delivery_rows", ids=ids, limit=len(ids), **Filter().criteria)


def deliveries_of(event_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE) -> Steps[Page[DeliveryRow]]:
    """Return the newest of an event's deliveries with ids below `before`, the oldest of them first."""
    window = yield from narrow("delivery_window", "delivery_ids_of_event", event_id=event_id)

    def matching(ids: list[int], limit: int) -> Steps[list[DeliveryRow]]:
        found = ids_of((yield from rows("delivery_ids_among", ids=ids, event_id=event_id, limit=limit)))
        return (yield from delivery_rows(found))

    page = yield from look(Filter(before=before, limit=limit), window, matching, "delivery_at")
    return replace(page, rows=page.rows[::-1])


def generations_of(delivery_id: int) -> Steps[list[DeliveryRow]]:
    """Return the newest generations of a delivery's event and destination, the oldest of them first."""
    ids = ids_of((yield from rows("generation_ids", delivery_id=delivery_id, limit=SHOWN_OF_ONE)))
    return sorted((yield from delivery_rows(ids)), key=lambda each: each.generation)


def attempts_of(delivery_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE) -> Steps[Page[AttemptRow]]:
    """Return the newest of a delivery's attempts with numbers below `before`, the first of them first."""
    values = {"delivery_id": delivery_id, "before": LAST if before is None else before}
    return tail(AttemptRow, "attempts_of", lambda each: (each.attempt, each.created_at), limit, **values)


def lease_of(delivery_id: int) -> Steps[LeaseRow | None]:
    """Return the lease under which it is being sent, if it is."""
    return one(LeaseRow, "lease_of", delivery_id=delivery_id)


def findings_of(delivery_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE) -> Steps[Page[FindingRow]]:
    """Return the newest of what was found out about a delivery beside its state, the oldest of it first."""
    values = {"delivery_id": delivery_id, "before": LAST if before is None else before}
    return tail(FindingRow, "findings_of", lambda each: (each.id, each.created_at), limit, **values)


def cancel(delivery_ids: Sequence[int], *, operator: str, reason: str) -> Steps[Acted]:
    """Give up what is Pending or waiting to retry, as cancelled. Others are left as they are."""
    ids = yield from give_up(delivery_ids, reason)
    return (yield from log("cancel", operator, reason, ids, subject="delivery"))


def give_up(delivery_ids: Sequence[int], reason: str | None) -> Steps[list[int]]:
    """Cancel those of these that wait; their ids."""
    why = said(reason or "")
    ids = sorted(ids_of((yield from rows("cancel", delivery_ids=list(delivery_ids), reason=why))))
    if ids:
        yield from rows("add_cancelled", delivery_ids=ids, reason=why)
        yield from rows("count", name="dead_lettered", amount=len(ids))
    return ids


def namespace() -> Steps[str]:
    """Return the token namespace of this database."""
    [[name]] = yield from rows("namespace")
    return str(name)
