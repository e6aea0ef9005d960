"""What the database holds about one delivery at one moment, gathered for those who put it into words."""

from dataclasses import dataclass
from datetime import datetime

from sendonce.store.records import (
    ATTESTED,
    AttemptRow,
    CorrectionRow,
    DeadLetterRow,
    DeliveryRow,
    FindingRow,
    LeaseRow,
    Room,
    StopRow,
    SubscriptionRow,
)

HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
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
    corrections: tuple[CorrectionRow, ...] = ()
    generations: tuple[DeliveryRow, ...] = ()
    has_workers: bool = True
    is_for_tenant: bool = False

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
