"""The metrics: their names and meanings, what one worker counts, and their text for Prometheus."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from sendonce.domain.destinations import scheme_of
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

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metric(NamedTuple):
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


class Spread:
    """How often something took how long, by BOUNDS."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: Sequence[float]) -> None:
        for each in seconds:
            self.counts[bisect_left(BOUNDS, each)] += 1
        self.total += sum(seconds)

    def buckets(self) -> list[tuple[str, float]]:
        """Each bound with how many were not above it."""
        return list(zip([*map(str, BOUNDS), "+Inf"], accumulate(self.counts), strict=True))


# The values of a metric by the values of its labels.
Values: TypeAlias = Mapping[tuple[str, ...], "float | Spread"]
Measured: TypeAlias = tuple[Metric, Values]

INFO = Metric("sendonce_worker_info", "gauge", "Always 1: which worker this is.", ("version", "worker_id"))
SLOTS = Metric("sendonce_worker_slots", "gauge", "How many sends this worker does at once.")
IN_FLIGHT = Metric("sendonce_worker_in_flight", "gauge", "Attempts of this worker whose results are not written yet.")
ANSWERS = Metric("sendonce_database_answers", "gauge", "1, or 0 while a part of this worker has lost the database.")
ATTEMPTS = Metric("sendonce_attempts_total", "counter", "Attempts by what they came to.", ("channel", "outcome"))
ATTEMPT_SECONDS = Metric(
    "sendonce_attempt_seconds", "histogram", "How long attempts took, but those that were put off.", ("channel",)
)
LOOK_UPS = Metric("sendonce_look_ups_total", "counter", "What receivers answered when they were asked.", ("answer",))
RESULTS = Metric("sendonce_results_total", "counter", "Results by what became of them.", ("result",))
DOUBTS = Metric("sendonce_doubts_total", "counter", "Results that left their delivery in doubt.")
SETTLE_SECONDS = Metric("sendonce_settle_seconds", "histogram", "How long it took to write a batch of results.")
EXPIRED = Metric(
    "sendonce_attempts_expired_total", "counter", "Attempts taken over from workers that stopped answering."
)
LEASES_LOST = Metric("sendonce_leases_lost_total", "counter", "Leases that others took over: this worker was too slow.")
DATABASE_LOST = Metric(
    "sendonce_database_lost_total", "counter", "How often a part of this worker has lost the database.", ("part",)
)
COMMITS_LOST = Metric(
    "sendonce_commits_lost_total", "counter", "How often this worker has noticed that the database has lost commits."
)
TRIPPED = Metric("sendonce_breakers_tripped_total", "counter", "Breakers opened: a destination failed again and again.")
DISABLED = Metric("sendonce_subscriptions_disabled_total", "counter", "Subscriptions whose receiver is gone for good.")
ALERTS_FAILED = Metric("sendonce_alerts_failed_total", "counter", "Alerts that could not be told.", ("way",))

OLDEST_DUE = Metric(
    "sendonce_oldest_due_age_seconds", "gauge", "For how long the oldest due delivery is due; a parked one is not."
)
DUE = Metric("sendonce_deliveries_due", "gauge", "Deliveries that could be sent now.")
SCHEDULED = Metric("sendonce_deliveries_scheduled", "gauge", "Deliveries that are due later.")
RETRYING = Metric("sendonce_deliveries_retrying", "gauge", "Due or due later after an attempt that failed.")
BEING_SENT = Metric("sendonce_deliveries_in_flight", "gauge", "Deliveries that are being sent.")
IN_DOUBT = Metric("sendonce_deliveries_in_doubt", "gauge", "Open deliveries that may have been sent.")
PARKED = Metric("sendonce_deliveries_parked", "gauge", "Deliveries that are held back, by what.", ("cause",))
NOT_SERVED = Metric(
    "sendonce_deliveries_not_served", "gauge", "Deliveries that wait for a channel no live worker serves."
)
OLDEST_OPEN = Metric(
    "sendonce_oldest_open_age_seconds", "gauge", "For how long the oldest open delivery is on its way.", ("channel",)
)
BREAKERS = Metric("sendonce_breakers_open", "gauge", "Destinations left alone because they fail.", ("channel",))
DEAD_LETTERS = Metric(
    "sendonce_dead_letters_open", "gauge", "Deliveries given up that wait for a person; cancelled ones do not."
)
INBOX_WAITING = Metric("sendonce_inbox_waiting", "gauge", "Messages that came in and wait for a try, or are in one.")
INBOX_DEAD = Metric("sendonce_inbox_dead", "gauge", "Messages that came in, were given up and wait for a person.")
INBOX_OLDEST = Metric(
    "sendonce_inbox_oldest_due_age_seconds", "gauge", "For how long the oldest message that came in is due."
)
INBOX_DUPLICATES = Metric(
    "sendonce_inbox_duplicates_total", "counter", "Messages that came again and were recognised by their receipt."
)
RETENTION_BEHIND = Metric(
    "sendonce_retention_behind_seconds",
    "gauge",
    "For how long at most things are there that should be gone.",
    ("part",),
)
WORKERS = Metric("sendonce_workers_alive", "gauge", "Workers that have been seen lately.")
STOPS = Metric("sendonce_stops", "gauge", "Stops in force.")
ALERTS = Metric("sendonce_alerts_raised", "gauge", "Alerts that stand.")
SCHEMA = Metric("sendonce_schema_version", "gauge", "The number of the database's schema.")

CONSUMER_INFO = Metric(
    "sendonce_consumer_info", "gauge", "Always 1: which consumer this is.", ("consumer", "mode", "version")
)
IN_HAND = Metric(
    "sendonce_consumer_in_hand", "gauge", "Messages that this consumer has and is not done with.", ("consumer",)
)
CONSUMED = Metric(
    "sendonce_consumer_messages_total", "counter", "Tries of messages by what they came to.", ("consumer", "result")
)
SOURCE_UP = Metric(
    "sendonce_consumer_source_up", "gauge", "1, or 0 while this consumer has lost its broker.", ("consumer",)
)
SOURCE_LOST = Metric(
    "sendonce_consumer_source_lost_total", "counter", "How often this consumer has lost its broker.", ("consumer",)
)

OF_A_WORKER = (
    INFO, SLOTS, IN_FLIGHT, ANSWERS, ATTEMPTS, ATTEMPT_SECONDS, LOOK_UPS, RESULTS, DOUBTS, SETTLE_SECONDS, EXPIRED,
    LEASES_LOST, DATABASE_LOST, COMMITS_LOST, TRIPPED, DISABLED, ALERTS_FAILED,
)  # fmt: skip
OF_A_CONSUMER = (CONSUMER_INFO, IN_HAND, CONSUMED, SOURCE_UP, SOURCE_LOST)
OF_THE_DATABASE = (
    OLDEST_DUE, OLDEST_OPEN, NOT_SERVED, BREAKERS, DUE, SCHEDULED, RETRYING, BEING_SENT, IN_DOUBT, PARKED, DEAD_LETTERS,
    INBOX_WAITING, INBOX_DEAD, INBOX_OLDEST, INBOX_DUPLICATES, RETENTION_BEHIND, WORKERS, STOPS, ALERTS, SCHEMA,
)  # fmt: skip


# What holds a delivery back: a subscription that is paused or disabled, a stop, a breaker, too many on their way …
CAUSES = ("subscription", "stop", "breaker", "limit", "rate", "channel", "other")
# What no channel of this worker serves: a scheme that somebody else has chosen is not for labels.
OTHER = "other"


def alone(value: float) -> Values:
    """The values of a metric that has no labels."""
    return {(): value}


def exposition(measured: Iterable[Measured], accept: str) -> tuple[bytes, str]:
    """The text in the format that the reader accepts best, and its content type."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return encode(_Collected(measured)), content_type


class _Collected:
    """What an encoder reads from."""

    def __init__(self, measured: Iterable[Measured]) -> None:
        self._measured = measured

    def collect(self) -> "Iterator[Family]":
        for metric, values in self._measured:
            yield _family(metric, values)


def _family(metric: Metric, values: Values) -> "Family":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value in values.items():
            if isinstance(value, Spread):
                histogram.add_metric(labels, value.buckets(), value.total)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        if not isinstance(value, Spread):
            family.add_metric(labels, value)
    return family


OUTCOMES = ("Delivered", "Accepted", "Refused", "Failed", "Unknown", "Deferred")
_RESULTS = ("completed", "retrying", "dead_lettered", "already_applied", "late")
_KNOWN: dict[Metric, tuple[str, ...]] = {
    LOOK_UPS: ("found", "not_found", "no_answer", "cannot_tell"),
    RESULTS: _RESULTS,
    DATABASE_LOST: ("worker", "results", "lease_keeper"),
    ALERTS_FAILED: ("webhook", "mail", "database"),
}
_PLAIN = (DOUBTS, EXPIRED, LEASES_LOST, COMMITS_LOST, TRIPPED, DISABLED)


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
        self._counts[ATTEMPTS] = Counter({(OTHER, outcome): 0 for outcome in OUTCOMES})
        for metric, values in _KNOWN.items():
            self._counts[metric] = Counter({(value,): 0 for value in values})

    def on_fact(self, fact: Fact) -> None:
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
                (ATTEMPT_SECONDS, {**self._seconds}),
                (SETTLE_SECONDS, {(): self._settles}),
            ]
            info: list[Measured] = []
            if self._info:
                info = [(INFO, {self._info: 1}), (SLOTS, alone(self._slots))]
            return [*info, *counted, *spreads]

    def _begun(self, fact: Begun) -> None:
        self._info = (self._version, str(fact.worker_id))
        self._slots = fact.concurrency
        self._channels = frozenset({OTHER, *map(scheme_of, fact.channels)})
        for channel in sorted(self._channels):
            self._seconds.setdefault((channel,), Spread())
            self._counts[ATTEMPTS].update({(channel, outcome): 0 for outcome in OUTCOMES})

    def _settled(self, fact: Settled) -> None:
        for scheme, outcome, seconds in fact.attempts:
            channel = scheme if scheme in self._channels else OTHER
            self._counts[ATTEMPTS][channel, outcome] += len(seconds)
            if outcome != "Deferred":
                self._seconds[channel,].add(seconds)
        for answer, count in fact.look_ups:
            self._counts[LOOK_UPS][answer,] += count
        for result in _RESULTS:
            self._counts[RESULTS][result,] += getattr(fact, result)
        self._counts[DOUBTS][()] += fact.in_doubt
        self._settles.add([fact.took.total_seconds()])

    def _count(self, fact: Fact) -> None:
        match fact:
            case Expired(attempts=attempts):
                self._counts[EXPIRED][()] += attempts
            case LeasesLost(leases=leases):
                self._counts[LEASES_LOST][()] += leases
            case DatabaseLost(part=part):
                self._counts[DATABASE_LOST][part.replace(" ", "_"),] += 1
            case CommitsLost():
                self._counts[COMMITS_LOST][()] += 1
            case Tripped():
                self._counts[TRIPPED][()] += 1
            case Disabled():
                self._counts[DISABLED][()] += 1
            case AlertFailed(way=way):
                self._counts[ALERTS_FAILED][way,] += 1
