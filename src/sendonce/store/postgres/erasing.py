"""Takes away what one person was sent, and keeps that it was. Every step is one transaction."""

from collections.abc import Sequence
from uuid import UUID

from sendonce.domain.destinations import destination_hash
from sendonce.domain.outcomes import FOUND
from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.store.erasures import Taking, taking
from sendonce.store.postgres.lanes import Connection, Lanes, fetch
from sendonce.store.records import ATTESTED
from sendonce.store.upkeep import Erased, Facts, Person


class Erasing(Lanes):
    """See `ErasureStore`."""

    async def events_of(self, person: Person, after: int, *, limit: int) -> tuple[list[int], int | None]:
        """See ErasureStore."""
        values = {"after": after, "limit": limit, "destination_hash": _hash(person), "subject": person.subject}
        name = "events_to" if person.subject is None else "events_about"
        last_id, found = (await self.upkeep.fetch(name, values))[0]
        return list(found or ()), last_id

    async def facts_of(self, event_ids: Sequence[int], person: Person) -> list[Facts]:
        """See ErasureStore."""
        async with self.upkeep.transaction() as connection:
            return await _facts(connection, event_ids, person)

    async def erase(self, event_ids: Sequence[int], person: Person, *, shared: bool, operator: str) -> Erased:
        """See ErasureStore."""
        async with self.upkeep.transaction() as connection:
            wanted = {"ids": list(event_ids)}
            locked = [row[0] for row in await fetch(connection, "lock_events", wanted)]
            taken = taking(await _facts(connection, locked, person), person, shared=shared)
            await _take(connection, taken, person, operator)
            return taken.counts + Erased(busy=len(event_ids) - len(locked))


async def _facts(connection: Connection, event_ids: Sequence[int], person: Person) -> list[Facts]:
    values = {"ids": list(event_ids), "destination_hash": _hash(person), "tenant": person.tenant}
    rows = await fetch(connection, "erasure_facts", values)
    return [Facts(row[0], row[1], tuple(row[2] or ()), tuple(row[3] or ()), *row[4:]) for row in rows]


async def _take(connection: Connection, taken: Taking, person: Person, operator: str) -> None:
    by_subject = person.subject is not None
    await fetch(connection, "erase_events", {"ids": taken.payloads, "with_subject": by_subject})
    who = clean(operator, MESSAGE_LENGTH)
    values = {"ids": taken.deliveries, "found": FOUND, "attested": ATTESTED, "operator": who}
    for name in ("erase_contents", "erase_attempts", "erase_dead_letters", "erase_findings"):
        await fetch(connection, name, values)


def _hash(person: Person) -> UUID | None:
    return None if person.destination is None else UUID(bytes=destination_hash(person.destination))
