"""What one worker has done since it began, counted from its facts: a few additions for each batch."""

import threading
from collections import Counter

from sendonce.domain.destinations import scheme_of
from sendonce.observability import metrics
from sendonce.observability.facts import (
    AlertFailed,
    Begun,
    CommitsLost,
    DatabaseLost,
    Disabled,
    Expired,
    Fact,
    LeasesLost,
    Settled,
    Tripped,
)
from sendonce.observability.metrics import OTHER, Measured, Metric, Spread

OUTCOMES = ("Delivered", "Accepted", "Refused", "Failed", "Unknown", "Deferred")
RESULTS = ("completed", "retrying", "dead_lettered", "already_applied", "late")
_KNOWN: dict[Metric, tuple[str, ...]] = {
    metrics.LOOK_UPS: ("found", "not_found", "no_answer", "cannot_tell"),
    metrics.RESULTS: RESULTS,
    metrics.DATABASE_LOST: ("worker", "results", "lease_keeper"),
    metrics.ALERTS_FAILED: ("webhook", "mail", "database"),
}
_PLAIN = (metrics.DOUBTS, metrics.EXPIRED, metrics.LEASES_LOST, metrics.COMMITS_LOST, metrics.TRIPPED, metrics.DISABLED)


class Counters:
    """Hears facts from either thread. Series whose labels are known beforehand are there from the beginning, at 0."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._lock = threading.Lock()
        self._info: tuple[str, ...] = ()
        self._slots = 0
        self._channels = frozenset({OTHER})
        self._settles = Spread()
        self._seconds: dict[tuple[str, ...], Spread] = {(OTHER,): Spread()}
        self._counts: dict[Metric, Counter[tuple[str, ...]]] = {metric: Counter({(): 0}) for metric in _PLAIN}
        self._counts[metrics.ATTEMPTS] = Counter({(OTHER, outcome): 0 for outcome in OUTCOMES})
        for metric, values in _KNOWN.items():
            self._counts[metric] = Counter({(value,): 0 for value in values})

    def hear(self, fact: Fact) -> None:
        """Count a fact."""
        with self._lock:
            match fact:
                case Settled():
                    self._settled(fact)
                case Begun():
                    self._begun(fact)
                case _:
                    self._count(fact)

    def measured(self) -> list[Measured]:
        """What was counted, as it is now."""
        with self._lock:
            counted: list[Measured] = [(metric, dict(values)) for metric, values in self._counts.items()]
            spreads: list[Measured] = [
                (metrics.ATTEMPT_SECONDS, {**self._seconds}),
                (metrics.SETTLE_SECONDS, {(): self._settles}),
            ]
            info: list[Measured] = []
            if self._info:
                info = [(metrics.INFO, {self._info: 1}), (metrics.SLOTS, metrics.alone(self._slots))]
            return [*info, *counted, *spreads]

    def _begun(self, fact: Begun) -> None:
        self._info = (self._version, str(fact.worker_id))
        self._slots = fact.concurrency
        self._channels = frozenset({OTHER, *map(scheme_of, fact.channels)})
        for channel in sorted(self._channels):
            self._seconds.setdefault((channel,), Spread())
            self._counts[metrics.ATTEMPTS].update({(channel, outcome): 0 for outcome in OUTCOMES})

    def _settled(self, fact: Settled) -> None:
        for scheme, outcome, seconds in fact.attempts:
            channel = scheme if scheme in self._channels else OTHER
            self._counts[metrics.ATTEMPTS][channel, outcome] += len(seconds)
            if outcome != "Deferred":
                self._seconds[channel,].add(seconds)
        for answer, count in fact.look_ups:
            self._counts[metrics.LOOK_UPS][answer,] += count
        for result in RESULTS:
            self._counts[metrics.RESULTS][result,] += getattr(fact, result)
        self._counts[metrics.DOUBTS][()] += fact.in_doubt
        self._settles.add([fact.took.total_seconds()])

    def _count(self, fact: Fact) -> None:
        match fact:
            case Expired(attempts=attempts):
                self._counts[metrics.EXPIRED][()] += attempts
            case LeasesLost(leases=leases):
                self._counts[metrics.LEASES_LOST][()] += leases
            case DatabaseLost(part=part):
                self._counts[metrics.DATABASE_LOST][part.replace(" ", "_"),] += 1
            case CommitsLost():
                self._counts[metrics.COMMITS_LOST][()] += 1
            case Tripped():
                self._counts[metrics.TRIPPED][()] += 1
            case Disabled():
                self._counts[metrics.DISABLED][()] += 1
            case AlertFailed(way=way):
                self._counts[metrics.ALERTS_FAILED][way,] += 1
