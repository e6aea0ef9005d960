"""What the database holds about one delivery at one moment, gathered for those who put it into words."""

import re
from dataclasses import dataclass, replace
from datetime import datetime

from sendonce.domain.deliveries import ReasonClass
from sendonce.store.records import (
    ATTESTED,
    AttemptRow,
    CorrectionRow,
    DeadLetterRow,
    DeliveryRow,
    EvidenceRow,
    FindingRow,
    LeaseRow,
    Room,
    StopRow,
    SubscriptionRow,
)

HELD = "held"
A_PERSON = "a person"
THE_SERVICE = "the service"
_OURS = "our_"
_VARIABLE = "SENDONCE_"
# Who gave late evidence, as a dead letter tells it.
_SAYS = re.compile(r"^.+(?= says that it was )")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One delivery with all that belongs to it: `address` is where it leads to, `stop` or `room` what holds it.

    `is_for_tenant`: it is told to a tenant, who has no command line and is not to know who runs the service.
    """

    now: datetime
    delivery: DeliveryRow
    token: str
    address: str
    attempts: tuple[AttemptRow, ...] = ()
    lease: LeaseRow | None = None
    dead_letter: DeadLetterRow | None = None
    subscription: SubscriptionRow | None = None
    stop: StopRow | None = None
    room: Room | None = None
    findings: tuple[FindingRow, ...] = ()
    evidence: tuple[EvidenceRow, ...] = ()
    corrections: tuple[CorrectionRow, ...] = ()
    generations: tuple[DeliveryRow, ...] = ()
    has_workers: bool = True
    is_for_tenant: bool = False

    def for_tenant(self) -> "Snapshot":
        """Return what a tenant may be told of it: no operator, reason of an operator, worker or other tenant's work."""
        return Snapshot(
            now=self.now,
            delivery=self.delivery,
            token=self.token,
            address=self.address,
            attempts=tuple(attempt_for_tenant(each) for each in self.attempts),
            lease=None if self.lease is None else replace(self.lease, id=0, worker_id=0, worker_name=None),
            dead_letter=None if self.dead_letter is None else dead_letter_for_tenant(self.dead_letter),
            subscription=None if self.subscription is None else replace(self.subscription, state_reason=None),
            stop=None if self.stop is None else replace(self.stop, scope="", value="", operator="", reason=None),
            room=None if self.room is None else _room(self.room),
            findings=tuple(_finding(each) for each in self.findings),
            evidence=tuple(replace(each, source=THE_SERVICE, reference=None, details=None) for each in self.evidence),
            corrections=tuple(replace(each, operator=None, reason=None) for each in self.corrections),
            generations=self.generations,
            has_workers=True,
            is_for_tenant=True,
        )

    def for_operators(self, words: str) -> str:
        """These words, or nothing when a tenant is told."""
        return "" if self.is_for_tenant else words

    @property
    def newer(self) -> DeliveryRow | None:
        """The generation right after this one."""
        wanted = self.delivery.generation + 1
        return next((each for each in self.generations if each.generation == wanted), None)

    @property
    def last_error(self) -> AttemptRow | None:
        """The last ended attempt, if it brought an error."""
        ended = [each for each in self.attempts if each.outcome is not None]
        return ended[-1] if ended and ended[-1].error_code else None

    @property
    def doubtful(self) -> AttemptRow | None:
        """The last attempt that nobody knows the end of. One that was held has sent nothing: the doubt is older."""
        unclear = [each for each in self.attempts if each.outcome in ("Unknown", "Accepted")]
        return next((each for each in reversed(unclear) if each.error_code != HELD), None)

    @property
    def attestation(self) -> str | None:
        """Who has attested it as sent, and why: `ada@host: …`."""
        return next((each.details for each in self.findings if each.kind == ATTESTED), None)


def attempt_for_tenant(attempt: AttemptRow) -> AttemptRow:
    """Return it without its lease, advice to operators, and what is said about our own account and servers."""
    if _is_ours(attempt):
        return replace(attempt, lease_id=0, error_message=None, response=None)
    return replace(attempt, lease_id=0, error_message=_without_advice(attempt.error_message))


def dead_letter_for_tenant(letter: DeadLetterRow) -> DeadLetterRow:
    """Return it without who closed it, what the operator has said who cancelled it, and who gave evidence."""
    is_cancelled = letter.reason is ReasonClass.CANCELLED
    message = None if is_cancelled or _is_ours(letter) else _without_advice(letter.error_message)
    return replace(letter, error_message=message and _SAYS.sub(THE_SERVICE, message), closed_by=None)


def _is_ours(failed: AttemptRow | DeadLetterRow) -> bool:
    return (failed.error_code or "").startswith(_OURS)


def _finding(finding: FindingRow) -> FindingRow:
    # A late result names the lease that it came under.
    return replace(finding, details=A_PERSON if finding.kind == ATTESTED else None)


def _room(room: Room) -> Room:
    breaker = None if room.breaker is None else replace(room.breaker, error_code=None)
    return replace(room, waiting=1, breaker=breaker)


def _without_advice(message: str | None) -> str | None:
    """Leave out the advice to operators: it stands after a semicolon and names a variable."""
    if message is None:
        return None
    return "; ".join(part for part in message.split("; ") if _VARIABLE not in part) or None
