"""What people look at in a database: lists and rows of everything, without a verb that changes anything."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from sendonce.domain.evidence import Evidence
from sendonce.domain.requests import RequestState
from sendonce.store.filters import SHOWN_OF_ONE, Filter, Page
from sendonce.store.inbox import InboxReads
from sendonce.store.late_evidence import Sought, Weighed
from sendonce.store.migrations import Backfill
from sendonce.store.reconciliation import CompletedStep
from sendonce.store.records import (
    AttemptRow,
    CorrectionRow,
    DeadLetterGroup,
    DeadLetterRow,
    DeliveryRow,
    EventRow,
    EvidenceRow,
    FindingRow,
    KeptSecret,
    LeaseRow,
    RequestRow,
    Status,
    SubscriptionRow,
)
from sendonce.store.upkeep import Reached


class ReadStore(InboxReads, Protocol):
    """What people look at. Never waits for the work.

    Each list looks at a bounded number of rows in one call, and its page says how far it looked.
    """

    async def status(self) -> Status: ...

    async def instance(self) -> str | None:
        """The name of this database, if it has one."""
        ...

    async def server(self) -> tuple[str, str, str] | None:
        """Which server the database is on, and which of its lives: they change with a failover or a restore. None where
        that is not known."""
        ...

    async def namespace(self) -> str:
        """The token namespace of this database."""
        ...

    async def backfills(self) -> list[Backfill]:
        """How far the back-fill of each migration that has one has come."""
        ...

    async def retention_reached(self) -> list[Reached]:
        """How far retention has come, part by part."""
        ...

    async def events(self, wanted: Filter) -> Page[EventRow]: ...

    async def event(self, event_id: int) -> EventRow | None: ...

    async def events_by_key(self, key: str) -> list[EventRow]: ...

    async def requests(self, wanted: Filter) -> Page[RequestRow]: ...

    async def requests_by_key(self, key: str) -> list[RequestRow]: ...

    async def request(self, request_id: int) -> RequestState | None:
        """A request and its recipients at one moment."""
        ...

    async def payload(self, event_id: int) -> str | None:
        """An event's payload, apart from its row: a role may look at events without the right to read payloads."""
        ...

    async def deliveries(self, wanted: Filter) -> Page[DeliveryRow]: ...

    async def delivery(self, delivery_id: int) -> DeliveryRow | None: ...

    async def deliveries_of(
        self, event_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE
    ) -> Page[DeliveryRow]:
        """The newest of an event's deliveries with ids below `before`, the oldest of them first."""
        ...

    async def generations_of(self, delivery_id: int) -> list[DeliveryRow]:
        """The newest generations of a delivery's event and destination, the oldest of them first."""
        ...

    async def delivery_by_token(self, token: str, *, before: int | None = None) -> Page[DeliveryRow]:
        """Look for the newest delivery with this token: it is computed of each that is looked at, and never stored."""
        ...

    async def attempts_of(
        self, delivery_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE
    ) -> Page[AttemptRow]:
        """The newest of a delivery's attempts with numbers below `before`, the first of them first."""
        ...

    async def lease_of(self, delivery_id: int) -> LeaseRow | None:
        """The lease under which it is being sent, if it is."""
        ...

    async def completed_after(self, after: int, *, since: datetime, limit: int) -> CompletedStep:
        """Look in one bounded step for completed deliveries with ids above `after`, notified since then."""
        ...

    async def left_alone(self) -> tuple[int, datetime | None]:
        """How many deliveries in doubt may not be asked about yet (up to ROOM_CAP), and when all of these may be."""
        ...

    async def first_delivery_since(self, since: datetime) -> int:
        """An id below which no delivery was made after `since`, found by halving."""
        ...

    async def corrections_of(self, delivery_id: int) -> list[CorrectionRow]:
        """What it goes instead of, and what goes instead of it."""
        ...

    async def content(self, delivery_id: int) -> str | None:
        """What it is sent instead of the event's payload; None when that is what it is sent, or it was erased. Needs
        the right to read contents."""
        ...

    async def findings_of(
        self, delivery_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE
    ) -> Page[FindingRow]:
        """The newest of what was found out about a delivery beside its state, the oldest of it first."""
        ...

    async def preview_evidence(self, delivery_id: int, evidence: Evidence) -> Weighed:
        """Say what evidence would do; nothing is written."""
        ...

    async def evidence_of(
        self, delivery_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE
    ) -> Page[EvidenceRow]:
        """The newest of what came in later about a delivery, the oldest of it first."""
        ...

    async def seek_deliveries(
        self, by: str, wanted: Collection[str], place: str, *, before: int | None = None
    ) -> Sought:
        """Look through one bounded step of a place for the newest deliveries with these tokens, or other side's ids."""
        ...

    async def dead_letters(self, wanted: Filter) -> Page[DeadLetterRow]:
        """List the open ones."""
        ...

    async def dead_letter_summary(self, wanted: Filter) -> Page[DeadLetterGroup]:
        """Count the open ones by reason, error code and host, the most first."""
        ...

    async def dead_letter(self, dead_letter_id: int) -> DeadLetterRow | None: ...

    async def dead_letter_of(self, delivery_id: int) -> DeadLetterRow | None: ...

    async def undelivered(self, tenant: str | None, *, before: int | None = None, limit: int = 50) -> Page[DeliveryRow]:
        """What has not arrived, with ids below `before`: not finished, or given up and nobody has closed that."""
        ...

    async def subscriptions(
        self, tenant: str | None, *, before: int | None = None, limit: int = 50
    ) -> Page[SubscriptionRow]:
        """List those that were not removed, the newest first, with ids below `before`."""
        ...

    async def held_subscriptions(self, limit: int) -> list[SubscriptionRow]:
        """Some of the subscriptions whose deliveries wait until they are resumed."""
        ...

    async def subscription(self, subscription_id: int) -> SubscriptionRow | None: ...

    async def kept_secrets(self, subscription_id: int) -> list[KeptSecret]:
        """Which secrets it has that have not expired, newest first."""
        ...

    async def waiting_in(self, rooms: Sequence[str]) -> dict[str, int]:
        """How many deliveries are parked on each of these, counted up to ROOM_CAP."""
        ...
