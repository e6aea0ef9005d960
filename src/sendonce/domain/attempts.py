"""An attempt: one try of a delivery. What a claim hands to a sender, and what comes back from it."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from sendonce.domain.decide import Decision, decide
from sendonce.domain.deliveries import Delivery, DeliveryId
from sendonce.domain.outcomes import Accepted, Delivered, Outcome
from sendonce.domain.policies import IfUnsure, Policy, spread_of


class AttemptState(StrEnum):
    PENDING = "Pending"
    LEASED = "Leased"
    COMPLETED = "Completed"
    FAILED = "Failed"


class Claim(NamedTuple):
    """One leased attempt with all a sender needs. A tuple, because one is made for every delivery.

    `destination` is what was recorded, `address` where it goes to (a subscription's own destination).
    `ask` is where the subscription's receiver can be asked.
    `is_proven` says that a late answer has shown it was delivered: it is completed without sending.
    """

    delivery_id: int
    attempt: int
    event_id: int
    tenant: str
    type: str
    key: str
    destination: str
    address: str
    payload: str | None
    content: str | None
    headers: str | None
    subject: str | None
    version: int | None
    recorded_at: datetime
    subscription_id: int | None
    subscription_state: str | None
    policy: str | None
    if_unsure: str | None
    attempt_count: int
    deferred_count: int
    corrections: int
    generation: int
    in_doubt: bool
    is_proven: bool
    notification_id: str | None
    seconds_left: float | None
    seconds_put_off: float | None = None
    ask: str | None = None

    def delivery(self, *, in_doubt: bool, can_look_up: bool | None) -> Delivery:
        """What decide() needs to know of this delivery."""
        return Delivery(
            id=DeliveryId(self.delivery_id),
            attempt_count=self.attempt_count,
            deferred_count=self.deferred_count,
            in_doubt=in_doubt,
            can_look_up=can_look_up,
            time_left=None if self.seconds_left is None else timedelta(seconds=self.seconds_left),
            if_unsure=None if self.if_unsure is None else IfUnsure(self.if_unsure),
            put_off_for=timedelta(seconds=self.seconds_put_off or 0.0),
        )


class Lease(NamedTuple):
    """A worker's time-limited right to the attempts of one claim, since `at` by the database's clock.

    The id is the fence: new every time.
    """

    id: int
    claims: tuple[Claim, ...]
    at: datetime


class Witness(NamedTuple):
    """One claim that was seen committed: a database that does not have it any more has lost commits."""

    delivery_id: int
    attempt: int
    lease_id: int
    event_id: int
    at: datetime


class Fence(NamedTuple):
    """What a database must be for a worker to claim from it: the one of this name, with this claim in it."""

    instance: str | None = None
    witness: Witness | None = None


NO_FENCE = Fence()


class Refusal(StrEnum):
    """Why nothing may be claimed now."""

    OTHER_INSTANCE = "other_instance"
    COMMITS_LOST = "commits_lost"
    UNMARKED = "unmarked"


class Report(NamedTuple):
    """How one attempt has ended, as its sender reports it. `cleared`: a look-up has shown that it had not arrived.

    `cannot_be_asked`: the other side has said that it will never know about this one. `answered`: what a look-up came
    to (found, not_found, no_answer, cannot_tell), where there was one.
    """

    claim: Claim
    lease_id: int
    outcome: Outcome
    cleared: bool = False
    cannot_be_asked: bool = False
    answered: str | None = None


class Result(NamedTuple):
    """A report with its decision: what settle writes."""

    report: Report
    decision: Decision

    @property
    def doubt(self) -> bool | None:
        """Whether it is in doubt now; None when it was claimed without doubt: one that came up since then stays."""
        return self.decision.in_doubt or (False if self.report.claim.in_doubt else None)


def resolve(report: Report, policy: Policy, *, can_look_up: bool | None) -> Result:
    """Decide a report."""
    claim = report.claim
    if report.cannot_be_asked:
        can_look_up = False
    delivery = claim.delivery(in_doubt=claim.in_doubt and not report.cleared, can_look_up=can_look_up)
    spread = spread_of(claim.delivery_id, claim.attempt)
    return Result(report, decide(delivery, report.outcome, policy, spread=spread))


class Verdict(StrEnum):
    """What settling a result has done."""

    APPLIED = "applied"
    ALREADY_APPLIED = "already applied"
    LATE = "late"


def closing_state(outcome: Outcome) -> AttemptState:
    """Return the final state of the attempt's row."""
    return AttemptState.COMPLETED if isinstance(outcome, Delivered | Accepted) else AttemptState.FAILED


def error_of(outcome: Outcome) -> tuple[str | None, str | None]:
    """The outcome's error code and message, if it has them."""
    if isinstance(outcome, Delivered | Accepted):
        return None, None
    return outcome.code, outcome.message or None


def sent_at_of(outcome: Outcome) -> datetime | None:
    """Return when the receiver says that it got the message, if it says so."""
    return outcome.sent_at if isinstance(outcome, Delivered) else None


def notification_id_of(outcome: Outcome) -> str | None:
    """Return the provider's id, if the outcome has one."""
    return outcome.notification_id if isinstance(outcome, Delivered | Accepted) else None
