"""Erase what one person was sent: the content goes; the fact, the digest and the token stay."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from sendonce.domain.destinations import destination_hash
from sendonce.domain.texts import digest
from sendonce.store.erasures import taking
from sendonce.store.records import Acted
from sendonce.store.upkeep import Erased, ErasureStore, Facts, Person

WINDOW = 5000
STEP = 200


class ErasureDesk(ErasureStore, Protocol):
    """Erasing, and the one verb of the orchestrator that it takes: what is still open is cancelled first."""

    async def cancel(self, delivery_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        """See OrchestratorStore."""
        ...

    async def log_upkeep(
        self, kind: str, *, operator: str, reason: str, subject: str, affected: int, details: str
    ) -> int:
        """See RetentionStore."""
        ...


@dataclass(frozen=True, slots=True)
class Erasing:
    """What was erased so far, how many open deliveries were cancelled for it, and up to which id was looked."""

    erased: Erased
    cancelled: int
    last_id: int

    @property
    def has_found(self) -> bool:
        return self.erased.events > 0 or self.erased.busy > 0


async def erase(
    desk: ErasureDesk, person: Person, *, shared: bool, operator: str, reason: str
) -> AsyncGenerator[Erasing, None]:
    """Cancel and erase, in steps; how far it has come after each. What was found is logged, also when interrupted, and
    never by name."""
    done = Erasing(Erased(), 0, 0)
    try:
        async for last_id, found in _walk(desk, person):
            cancelled = await _cancel(desk, found, operator, reason)
            ids = [each.event_id for each in found]
            erased = await desk.erase(ids, person, shared=shared, operator=operator) if ids else Erased()
            done = Erasing(done.erased + erased, done.cancelled + cancelled, last_id)
            yield done
    finally:
        if done.has_found:
            await desk.log_upkeep(
                "erase",
                operator=operator,
                reason=reason,
                subject=_unnamed(person),
                affected=done.erased.events,
                details=json.dumps(_counts(done)),
            )


async def count(desk: ErasureDesk, person: Person, *, shared: bool) -> AsyncGenerator[Erasing, None]:
    """What `erase` would come to now; nothing is changed."""
    done = Erasing(Erased(), 0, 0)
    async for last_id, found in _walk(desk, person):
        step = taking(found, person, shared=shared, cancelled=True).counts
        done = Erasing(done.erased + step, done.cancelled + sum(len(each.waiting) for each in found), last_id)
        yield done


async def _walk(desk: ErasureDesk, person: Person) -> AsyncIterator[tuple[int, list[Facts]]]:
    """What is there of this person, a bounded number of events at a time, each event once."""
    after = 0
    while True:
        found, last_id = await desk.events_of(person, after, limit=WINDOW)
        if last_id is None:
            return
        for start in range(0, max(len(found), 1), STEP):
            yield last_id, await desk.facts_of(found[start : start + STEP], person)
        after = last_id


async def _cancel(desk: ErasureDesk, found: Sequence[Facts], operator: str, reason: str) -> int:
    waiting = [delivery_id for each in found for delivery_id in each.waiting]
    return len((await desk.cancel(waiting, operator=operator, reason=reason)).ids) if waiting else 0


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
