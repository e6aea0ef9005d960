"""What each reader needs from a database: small protocols, split so that nobody sees a verb they must not use.

Every call is one transaction unless it says otherwise. Calls raise StoreBusy when the database cannot answer now;
the same call may then be made again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from sendonce.domain.attempts import Lease, Report, Result, Verdict
from sendonce.stores.records import (
    Acted,
    AttemptRow,
    DeadLetterRow,
    DeliveryRow,
    EventRow,
    Filter,
    FindingRow,
    LeaseRow,
    Status,
    SubscriptionRow,
)


@dataclass(frozen=True, slots=True)
class Started:
    """What a claim brought. `parked`: rows were found that must not be sent now, so claim again at once."""

    lease: Lease | None
    parked: int = 0


class OrchestratorStore(Protocol):
    """What the orchestrator needs: the only calls that change a delivery's state."""

    async def start(self, worker_id: int, limit: int, hold: timedelta) -> Started:
        """Lease one attempt each for up to `limit` due deliveries, oldest first.

        A delivery is never claimed by two workers. The lease is durable when this returns. Nothing is claimed that
        is stopped, or whose subscription is paused or disabled: such rows are parked instead.
        """
        ...

    async def settle(self, results: Sequence[Result]) -> list[Verdict]:
        """Close the attempts and move the deliveries, all or nothing; one verdict for each result, in order.

        A late result is kept as evidence: a late Delivered for a delivery that waits to retry makes the next attempt
        complete it without sending, and in every other case it becomes a finding.
        """
        ...

    async def cancel(self, delivery_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        """Give up what is Pending or waiting to retry, as cancelled. Others are left as they are."""
        ...


class LeaseStore(Protocol):
    """What the lease keeper needs. It never chooses a state: expiry asks `decide`."""

    async def register(self, name: str, version: str, concurrency: int) -> int:
        """Enter a worker; its id."""
        ...

    async def beat(self, worker_id: int, *, progressed: bool) -> None:
        """Say that this worker is alive, and whether it has got something done since the last time."""
        ...

    async def leave(self, worker_id: int) -> None:
        """Say that this worker has stopped on purpose."""
        ...

    async def renew(self, lease_ids: Sequence[int], hold: timedelta) -> set[int]:
        """Prolong these leases; the ids of those that are still ours. An expired one is not prolonged."""
        ...

    async def release(self, lease_ids: Sequence[int]) -> None:
        """Drop leases all of whose attempts are settled."""
        ...

    async def expire(self, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]) -> list[Result]:
        """Close the attempts of up to `limit` expired leases as Unknown and decide them, in one transaction."""
        ...

    async def is_idle(self) -> bool:
        """True when nothing is due now and nothing is in flight, leases of dead workers included."""
        ...

    async def roll_up_counters(self) -> None:
        """Replace many counter rows by one sum per name."""
        ...


class OperatorStore(Protocol):
    """What a person may do. Every action is a row in the operations log, in the same transaction."""

    async def open_generations(self, delivery_ids: Sequence[int], *, kind: str, operator: str, reason: str) -> Acted:
        """Open the next generation of finished deliveries (requeue, replay); the new ids, in the order given.

        The old rows stay as they are; an open dead letter of one is closed as requeued. NotFound or NotAllowed, and
        nothing written, when one of them does not exist, is not finished, or has a newer generation.
        """
        ...

    async def discard(self, dead_letter_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        """Close open dead letters as discarded. The deliveries stay as they are."""
        ...

    async def stop(self, scope: str, value: str, *, operator: str, reason: str | None) -> Acted:
        """Hold back all sends of a scope from now on."""
        ...

    async def resume(self, scope: str, value: str, *, operator: str) -> Acted:
        """Lift a stop and make what it parked due again."""
        ...

    async def add_subscription(
        self,
        *,
        tenant: str,
        types: Sequence[str],
        destination: str,
        policy: str | None,
        description: str | None,
        operator: str,
    ) -> int:
        """Enter a subscription; its id."""
        ...

    async def set_subscription_state(
        self, subscription_id: int, state: str, *, operator: str, reason: str | None
    ) -> Acted:
        """Pause, disable, resume (active: what was parked is due again) or remove. Removed is for good."""
        ...


class ReadStore(Protocol):
    """What people look at. Never waits for the work, and never scans a table: lists walk an index in bounded steps."""

    async def status(self) -> Status: ...

    async def namespace(self) -> str:
        """The token namespace of this database."""
        ...

    async def events(self, wanted: Filter) -> list[EventRow]: ...

    async def event(self, event_id: int) -> EventRow | None: ...

    async def events_by_key(self, key: str) -> list[EventRow]: ...

    async def payload(self, event_id: int) -> str | None:
        """An event's payload, apart from its row: a role may look at events without the right to read payloads."""
        ...

    async def deliveries(self, wanted: Filter) -> list[DeliveryRow]: ...

    async def delivery(self, delivery_id: int) -> DeliveryRow | None: ...

    async def deliveries_of(self, event_id: int) -> list[DeliveryRow]: ...

    async def delivery_by_token(self, token: str) -> DeliveryRow | None:
        """Found by walking from the newest, in bounded steps: a token is never stored."""
        ...

    async def attempts_of(self, delivery_id: int) -> list[AttemptRow]: ...

    async def lease_of(self, delivery_id: int) -> LeaseRow | None:
        """The lease under which it is being sent, if it is."""
        ...

    async def findings_of(self, delivery_id: int) -> list[FindingRow]: ...

    async def dead_letters(self, wanted: Filter) -> list[DeadLetterRow]:
        """The open ones, newest first."""
        ...

    async def dead_letter(self, dead_letter_id: int) -> DeadLetterRow | None: ...

    async def dead_letter_of(self, delivery_id: int) -> DeadLetterRow | None: ...

    async def subscriptions(self, tenant: str | None) -> list[SubscriptionRow]: ...

    async def subscription(self, subscription_id: int) -> SubscriptionRow | None: ...


class Store(OrchestratorStore, LeaseStore, OperatorStore, ReadStore, Protocol):
    """A whole database. Only the composition root and tests see it like this."""

    async def close(self) -> None: ...


class Doorbell(Protocol):
    """Waits for new work to be announced, where the database can do that."""

    async def wait(self, timeout: timedelta) -> None:
        """Return when something was announced, or after `timeout`."""
        ...

    async def close(self) -> None: ...
