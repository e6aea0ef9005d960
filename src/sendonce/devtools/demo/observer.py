"""Looks at the demonstration's database through the same readers that the command line uses."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sendonce.compose import amigrate, open_store
from sendonce.devtools.demo.shop import order_of
from sendonce.domain.deliveries import DeliveryState
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from sendonce.store.readers import ReadStore

EVERYTHING = Filter(limit=1000, include_cancelled=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many deliveries are in each state, how many of the open ones are in doubt, and how many were never tried."""

    states: Counter[DeliveryState]
    in_doubt: int = 0
    untried: int = 0

    @property
    def total(self) -> int:
        return self.states.total()

    @property
    def unfinished(self) -> int:
        return sum(amount for state, amount in self.states.items() if not state.is_final)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of one order's delivery, by our own log."""

    order: int
    delivery_id: int
    state: DeliveryState
    outcomes: tuple[str, ...] = ()
    reason: str = ""

    @property
    def was_in_doubt(self) -> bool:
        return "Unknown" in self.outcomes

    @property
    def is_unexplained(self) -> bool:
        return self.state is DeliveryState.DEAD_LETTERED and not self.reason


class Observer:
    """Asks the store from plain code: one event loop, used again and again."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        try:
            self._runner.run(amigrate(url))
            self._store: Store = self._runner.run(open_store(url))
        except BaseException:
            self._runner.close()
            raise

    def close(self) -> None:
        self._runner.run(self._store.close())
        self._runner.close()

    def progress(self) -> Progress:
        rows = self._runner.run(self._store.deliveries(EVERYTHING))
        return Progress(
            states=Counter(row.status for row in rows),
            in_doubt=sum(row.in_doubt and not row.status.is_final for row in rows),
            untried=sum(row.status is DeliveryState.PENDING for row in rows),
        )

    def leased(self) -> list[tuple[int, int]]:
        """The attempts that are being made now: delivery and attempt."""
        return self._runner.run(_leased(self._store))

    def still_leased(self, attempts: Sequence[tuple[int, int]]) -> int:
        """How many of these attempts have not ended."""
        return len(set(attempts) & set(self.leased()))

    def fates(self) -> list[Fate]:
        return self._runner.run(_fates(self._store))

    def recorded(self) -> set[int]:
        """The orders that have an event."""
        return {order_of(row.key) for row in self._runner.run(self._store.events(EVERYTHING))}


async def _leased(store: ReadStore) -> list[tuple[int, int]]:
    rows = await store.deliveries(Filter(status=DeliveryState.IN_PROGRESS, limit=1000))
    return [
        (row.id, attempt.attempt)
        for row in rows
        for attempt in await store.attempts_of(row.id)
        if attempt.finished_at is None
    ]


async def _fates(store: ReadStore) -> list[Fate]:
    letters = {letter.delivery_id: letter for letter in await store.dead_letters(EVERYTHING)}
    fates = []
    for row in await store.deliveries(EVERYTHING):
        letter = letters.get(row.id)
        attempts = await store.attempts_of(row.id)
        fates.append(
            Fate(
                order=order_of(row.key),
                delivery_id=row.id,
                state=row.status,
                outcomes=tuple(attempt.outcome or "" for attempt in attempts),
                reason="" if letter is None else f"{letter.reason}, {letter.error_code}",
            )
        )
    return sorted(fates, key=lambda fate: fate.order)
