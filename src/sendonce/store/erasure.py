"""Erasure: takes away what one person was sent, and keeps that it was. Every step is one transaction."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from sendonce.domain.destinations import destination_hash
from sendonce.domain.outcomes import FOUND
from sendonce.domain.texts import storable
from sendonce.sql.steps import Steps, records, rows
from sendonce.store.erasures import taking
from sendonce.store.operations_log import said
from sendonce.store.records import ATTESTED
from sendonce.store.upkeep import Erased, Facts, Person


class _Span(NamedTuple):
    last_id: int | None
    events: tuple[int, ...]


def events_of(person: Person, after: int, *, limit: int) -> Steps[tuple[list[int], int | None]]:
    """A bounded step up the deliveries, or for a subject the events: the events found, and the last id looked at;
    None when there are no more."""
    query = "events_to" if person.subject is None else "events_about"
    [span] = yield from records(
        _Span, query, after=after, limit=limit, destination_hash=_hash(person), subject=person.subject
    )
    return sorted(span.events), span.last_id


def facts_of(event_ids: Sequence[int], person: Person) -> Steps[list[Facts]]:
    """What of these events is the person's, in the order of their ids."""
    return (
        yield from records(Facts, "erasure_facts", ids=event_ids, destination_hash=_hash(person), tenant=person.tenant)
    )


def erase(event_ids: Sequence[int], person: Person, *, shared: bool, operator: str) -> Steps[Erased]:
    """Blank what has ended. `shared`: payloads too that others were sent, once these have ended."""
    locked = [row[0] for row in (yield from rows("lock_events", ids=event_ids))]
    taken = taking((yield from facts_of(locked, person)), person, shared=shared)
    yield from rows("erase_events", ids=taken.payloads, with_subject=person.subject is not None)
    values = {"ids": taken.deliveries, "found": FOUND, "attested": ATTESTED, "operator": said(operator)}
    for name in ("erase_contents", "erase_attempts", "erase_dead_letters", "erase_findings"):
        yield from rows(name, **values)
    return taken.counts + Erased(busy=len(event_ids) - len(locked))


def _hash(person: Person) -> UUID | None:
    return None if person.destination is None else UUID(bytes=destination_hash(storable(person.destination)))
