"""What has happened, as values. Never a payload, a secret or an address."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Self, TypeAlias

from sendonce.domain.attempts import Result, Verdict
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.destinations import scheme_of
from sendonce.domain.outcomes import Deferred


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    worker_id: int
    name: str
    concurrency: int
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One batch of results is written. `faults` on our side, as code:scheme, and how often each was met."""

    completed: int
    retrying: int
    dead_lettered: int
    in_doubt: int
    already_applied: int
    late: int
    took: timedelta
    faults: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, results: Sequence[Result], verdicts: Sequence[Verdict], took: timedelta) -> Self:
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
            faults=_faults(results) if states[DeliveryState.PENDING_RETRY] else (),
        )


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


def _faults(results: Sequence[Result]) -> tuple[tuple[str, int], ...]:
    return tuple(
        Counter(
            [
                f"{outcome.code}:{scheme_of(result.report.claim.address)}"
                for result in results
                if type(outcome := result.report.outcome) is Deferred
                and (outcome.code.startswith("our_") or outcome.code == "no_channel")
            ]
        ).items()
    )


Fact: TypeAlias = (
    Begun
    | Settled
    | Expired
    | LeasesLost
    | DatabaseLost
    | DatabaseBack
    | Disabled
    | Tripped
    | Alerted
    | AlertFailed
    | Stopping
    | Stopped
)
Emit: TypeAlias = Callable[[Fact], None]
