"""Takes away what one person was sent, and keeps that it was. Every step is one transaction."""

import json
from collections.abc import Sequence

from sendonce.domain.destinations import destination_hash
from sendonce.domain.outcomes import FOUND
from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.store.erasures import taking
from sendonce.store.records import ATTESTED
from sendonce.store.sqlite.lanes import Lane, Transaction
from sendonce.store.sqlite.retaining import change_each
from sendonce.store.upkeep import Erased, Facts, Person


class Erasing:
    """See `ErasureStore`."""

    _writer: Lane
    _reader: Lane

    async def events_of(self, person: Person, after: int, *, limit: int) -> tuple[list[int], int | None]:
        return await self._reader.run(_events_of, person, after, limit)

    async def facts_of(self, event_ids: Sequence[int], person: Person) -> list[Facts]:
        return await self._reader.run(_facts, event_ids, person)

    async def erase(self, event_ids: Sequence[int], person: Person, *, shared: bool, operator: str) -> Erased:
        return await self._writer.run(_erase, event_ids, person, shared, operator)


def _events_of(transaction: Transaction, person: Person, after: int, limit: int) -> tuple[list[int], int | None]:
    values = {"after": after, "limit": limit, "destination_hash": _hash(person), "subject": person.subject}
    last_id, found = transaction.fetch("events_to" if person.subject is None else "events_about", values)[0]
    return sorted(json.loads(found)), last_id


def _facts(transaction: Transaction, event_ids: Sequence[int], person: Person) -> list[Facts]:
    values = {"ids": json.dumps(list(event_ids)), "destination_hash": _hash(person), "tenant": person.tenant}
    return [
        Facts(
            event_id=row[0],
            has_payload=row[1] == 1,
            deliveries=tuple(json.loads(row[2])),
            waiting=tuple(json.loads(row[3])),
            is_busy=row[4] == 1,
            is_shared=row[5] == 1,
            is_needed=row[6] == 1,
            contents=row[7],
        )
        for row in transaction.fetch("erasure_facts", values)
    ]


def _erase(transaction: Transaction, event_ids: Sequence[int], person: Person, shared: bool, operator: str) -> Erased:
    taken = taking(_facts(transaction, event_ids, person), person, shared=shared)
    change_each(transaction, "erase_events", taken.payloads, with_subject=person.subject is not None)
    values = {
        "ids": json.dumps(taken.deliveries),
        "found": FOUND,
        "attested": ATTESTED,
        "operator": clean(operator, MESSAGE_LENGTH),
    }
    for name in ("erase_contents", "erase_attempts", "erase_dead_letters", "erase_findings"):
        transaction.change(name, values)
    return taken.counts


def _hash(person: Person) -> bytes | None:
    return None if person.destination is None else destination_hash(person.destination)
