"""Erase what one person was sent: the content goes; the fact, the digest and the token stay."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass

from sendonce.domain.destinations import destination_hash
from sendonce.domain.texts import digest
from sendonce.errors import ConfigError
from sendonce.store.erasures import taking
from sendonce.store.ports import Store
from sendonce.store.upkeep import Erased, Facts, Person

WINDOW = 5000
STEP = 200


@dataclass(frozen=True, slots=True)
class Erasing:
    """What was erased so far, how many open deliveries were cancelled for it, and up to which id was looked."""

    erased: Erased
    cancelled: int
    last_id: int

    @property
    def has_found(self) -> bool:
        return self.erased.events > 0 or self.erased.busy > 0


NOTHING = Erasing(Erased(), 0, 0)


def person_of(destination: str | None, subject: str | None, tenant: str | None) -> Person:
    """Check whose content is to be erased: everything to one destination, or everything about one subject."""
    if (destination is None) == (subject is None):
        raise ConfigError("say whose content: a destination, or a subject")
    return Person(destination=destination, subject=subject, tenant=tenant)


async def erase(
    store: Store, person: Person, *, shared: bool, operator: str, reason: str
) -> AsyncGenerator[Erasing, None]:
    """Cancel and erase, in steps; how far it has come after each. What was found is logged, also when interrupted, and
    never by name."""
    done = NOTHING
    try:
        async for last_id, found in _walk(store, person):
            cancelled = await _cancel(store, found, operator, reason)
            ids = [each.event_id for each in found]
            erased = await store.erase(ids, person, shared=shared, operator=operator) if ids else Erased()
            done = Erasing(done.erased + erased, done.cancelled + cancelled, last_id)
            yield done
    finally:
        if done.has_found:
            await store.log_upkeep(
                "erase",
                operator=operator,
                reason=reason,
                subject=_unnamed(person),
                affected=done.erased.events,
                details=json.dumps(_counts(done)),
            )


async def count(store: Store, person: Person, *, shared: bool) -> AsyncGenerator[Erasing, None]:
    """What `erase` would come to now; nothing is changed."""
    done = NOTHING
    async for last_id, found in _walk(store, person):
        step = taking(found, person, shared=shared, cancelled=True).counts
        done = Erasing(done.erased + step, done.cancelled + sum(len(each.waiting) for each in found), last_id)
        yield done


async def _walk(store: Store, person: Person) -> AsyncIterator[tuple[int, list[Facts]]]:
    """What is there of this person, a bounded number of events at a time, each event once."""
    after = 0
    while True:
        found, last_id = await store.events_of(person, after, limit=WINDOW)
        if last_id is None:
            return
        for start in range(0, max(len(found), 1), STEP):
            yield last_id, await store.facts_of(found[start : start + STEP], person)
        after = last_id


async def _cancel(store: Store, found: Sequence[Facts], operator: str, reason: str) -> int:
    waiting = [delivery_id for each in found for delivery_id in each.waiting]
    return len((await store.cancel(waiting, operator=operator, reason=reason)).ids) if waiting else 0


def _counts(done: Erasing) -> dict[str, int]:
    erased = done.erased
    return {
        "events": erased.events,
        "payloads": erased.payloads,
        "contents": erased.contents,
        "deliveries": erased.deliveries,
        "cancelled": done.cancelled,
        "kept": erased.kept,
        "busy": erased.busy,
    }


def _unnamed(person: Person) -> str:
    """For the operations log: enough to find it again for those who know whom they look for."""
    if person.destination is not None:
        return f"destination {destination_hash(person.destination).hex()}"
    return f"subject {digest(person.subject or '')[:16].hex()}"
