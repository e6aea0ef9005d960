"""What the consumers of one process count, for Prometheus."""

from collections.abc import Iterable
from typing import TypeAlias

from sendonce.consumer.registry import Consumer
from sendonce.observability.facts import Consumed, DatabaseLost, Fact, SourceBack, SourceGone
from sendonce.observability.metrics import (
    CONSUMED,
    CONSUMER_INFO,
    DATABASE_LOST,
    SOURCE_LOST,
    SOURCE_UP,
    Measured,
)

Counts: TypeAlias = dict[tuple[str, ...], float]
RESULTS = ("handled", "duplicate", "failed", "dead")


class ConsumerCounters:
    """Hears facts. Every series is there from the beginning, at 0; a source is up until it is known to be lost."""

    def __init__(self, version: str, consumers: Iterable[Consumer], part: str) -> None:
        consumers = list(consumers)
        self._info: Counts = {(each.name, each.mode.value, version): 1.0 for each in consumers}
        self._tries: Counts = {(each.name, result): 0 for each in consumers for result in RESULTS}
        self._up: Counts = {(each.name,): 1.0 for each in consumers}
        self._sources_lost: Counts = {(each.name,): 0 for each in consumers}
        self._database_lost: Counts = {(part,): 0}

    def on_fact(self, fact: Fact) -> None:
        """Count a fact."""
        match fact:
            case Consumed():
                counts = (fact.handled, fact.duplicates, fact.failed, fact.dead)
                for result, count in zip(RESULTS, counts, strict=True):
                    self._tries[fact.consumer, result] += count
            case SourceGone(consumer=consumer):
                self._up[consumer,] = 0
                self._sources_lost[consumer,] += 1
            case SourceBack(consumer=consumer):
                self._up[consumer,] = 1
            case DatabaseLost(part=part):
                self._database_lost[part,] += 1

    def measured(self) -> list[Measured]:
        """Return what was counted, as it is now."""
        return [
            (CONSUMER_INFO, {**self._info}),
            (CONSUMED, {**self._tries}),
            (SOURCE_UP, {**self._up}),
            (SOURCE_LOST, {**self._sources_lost}),
            (DATABASE_LOST, {**self._database_lost}),
        ]
