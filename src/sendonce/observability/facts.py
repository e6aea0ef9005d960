"""What has happened, as values. Never a payload, a secret or an address."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Self, TypeAlias

from sendonce.domain.attempts import Result, Verdict
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.destinations import scheme_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    worker_id: int
    name: str
    concurrency: int
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingMetrics:
    """The worker serves its metrics and its health."""

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One batch of results is written.

    Where somebody counts: the `attempts` by scheme and outcome, with the seconds that each took, and the `look_ups` by
    their answer.
    """

    completed: int
    retrying: int
    dead_lettered: int
    in_doubt: int
    already_applied: int
    late: int
    took: timedelta
    attempts: tuple[tuple[str, str, tuple[float, ...]], ...] = ()
    look_ups: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(
        cls, results: Sequence[Result], verdicts: Sequence[Verdict], took: timedelta, seconds: Sequence[float] = ()
    ) -> Self:
        """`seconds`: how long the attempt of each result took, where somebody counts."""
        states = Counter([r.decision.to for r, v in zip(results, verdicts, strict=True) if v is Verdict.APPLIED])
        doubtful = sum([r.decision.in_doubt for r, v in zip(results, verdicts, strict=True) if v is Verdict.APPLIED])
        return cls(
            completed=states[DeliveryState.COMPLETED],
            retrying=states[DeliveryState.PENDING_RETRY],
            dead_lettered=states[DeliveryState.DEAD_LETTERED],
            in_doubt=doubtful,
            already_applied=verdicts.count(Verdict.ALREADY_APPLIED),
            late=verdicts.count(Verdict.LATE),
            took=took,
            attempts=_attempts(results, seconds) if seconds else (),
            look_ups=_look_ups(results) if seconds else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A delivery failed, was put off, was given up, or is in doubt. `raised`: what a channel raised, and where."""

    kind: str
    event: int
    delivery: int
    type: str
    channel: str
    host: str | None
    code: str
    attempt: int
    worker: int
    trace: str | None
    raised: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreIncidents:
    """So many more of one kind than were told of within these seconds; most of them with this code at this host."""

    kind: str
    more: int
    seconds: float
    code: str
    host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRaised:
    """A channel raised: its exceptions' types and the places, without a text or a value."""

    event: int
    delivery: int
    type: str
    channel: str
    attempt: int
    worker: int
    trace: str | None
    traceback: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """Attempts of workers that stopped answering were closed as Unknown."""

    attempts: int
    retrying: int
    dead_lettered: int

    @classmethod
    def of(cls, results: Sequence[Result]) -> Self:
        states = Counter(result.decision.to for result in results)
        return cls(
            attempts=len(results),
            retrying=states[DeliveryState.PENDING_RETRY],
            dead_lettered=states[DeliveryState.DEAD_LETTERED],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """Attempts under leases that are not there were closed as Unknown."""

    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsLost:
    """The database no longer has what was committed: what it has is asked about before it is sent."""

    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOver:
    """All that a loss has put in doubt was asked about, or sent after its wait."""

    doubted: int
    after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherInstance:
    """The database has another name than the settings say, or one where they say none: nothing is sent."""

    instance: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChanged:
    """The database is on another server, or in another life of it, and has everything that we remember."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTooShort:
    """The other side recognises a message for less long than it may take to send it again."""

    channel: str
    remembers: timedelta
    needed: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesLost:
    """Leases of this worker were taken over by others: it was too slow."""

    leases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLost:
    part: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseBack:
    part: str
    after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    in_flight: int
    grace: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    finished: int
    in_doubt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Disabled:
    """A subscription was disabled because its receiver is gone for good."""

    subscription_id: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tripped:
    """A destination failed too often in a row: its deliveries wait while it is probed."""

    code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotServed:
    """The deadline of so many deliveries has passed while no live worker served their `channel`: they are given up."""

    channel: str
    expired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerted:
    """People are told that something needs them, or that it is over."""

    name: str
    message: str
    is_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFailed:
    """An alert could not be told by `way` (webhook, mail), or not looked at (database)."""

    way: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsFailed:
    """The gauges of the database cannot be read."""

    reason: str


def _attempts(results: Sequence[Result], seconds: Sequence[float]) -> tuple[tuple[str, str, tuple[float, ...]], ...]:
    grouped: dict[tuple[str, type], list[float]] = defaultdict(list)
    for (report, _), each in zip(results, seconds, strict=True):
        grouped[scheme_of(report.claim.address), type(report.outcome)].append(each)
    return tuple((scheme, outcome.__name__, tuple(took)) for (scheme, outcome), took in grouped.items())


def _look_ups(results: Sequence[Result]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter([report.answered for report, _ in results if report.answered]).items())


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFailed:
    """A worker, or `what` else works inside an application, has ended before its time; another one begins after so
    many seconds."""

    reason: str
    again_in: float
    what: str = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """A pass of retention is over: contents blanked, deliveries deleted with their attempts, events deleted with their
    keys, and other old rows."""

    contents: int
    deliveries: int
    events: int
    rest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningLate:
    """A pass of retention takes longer than there is between two of them."""

    part: str
    every: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What is marked sent was checked: so many deliveries, findings among them, and those that got no answer."""

    looked_at: int
    findings: int
    unanswered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFailed:
    """What is marked sent cannot be checked."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningFailed:
    """Retention cannot do its work."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Consuming:
    """A consumer has begun, or has ended; `cut` messages were in hand then, and come again."""

    consumer: str
    mode: str
    is_over: bool = False
    cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """What a consumer has done in the last second or so."""

    consumer: str
    handled: int
    duplicates: int
    failed: int
    dead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFailed:
    """A handler has failed at a message, or nobody can handle it: tried again later, or given up."""

    consumer: str
    message: str
    code: str
    tries: int
    is_dead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceGone:
    """A consumer has lost its broker, or cannot reach it."""

    consumer: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBack:
    consumer: str


Fact: TypeAlias = (
    Begun
    | ServingMetrics
    | Settled
    | Incident
    | MoreIncidents
    | ChannelRaised
    | Expired
    | Adopted
    | CommitsLost
    | LossOver
    | OtherInstance
    | ServerChanged
    | MemoryTooShort
    | LeasesLost
    | DatabaseLost
    | DatabaseBack
    | Disabled
    | Tripped
    | NotServed
    | Alerted
    | AlertFailed
    | MetricsFailed
    | Pruned
    | Audited
    | AuditFailed
    | PruningFailed
    | PruningLate
    | Stopping
    | Stopped
    | WorkerFailed
    | Consuming
    | Consumed
    | MessageFailed
    | SourceGone
    | SourceBack
)
Emit: TypeAlias = Callable[[Fact], None]
