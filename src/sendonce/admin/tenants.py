"""What a tenant may see and do. Each record is built from the fields listed here: what is not listed is not shown."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sendonce.admin.explain import explain_to_tenant
from sendonce.admin.explain.snapshot import attempt_for_tenant, dead_letter_for_tenant
from sendonce.admin.scoped import Scoped
from sendonce.admin.session import sync
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.engine.subscriptions import GONE_REASON
from sendonce.errors import NotAllowed
from sendonce.store.records import AttemptRow, DeadLetterRow, DeliveryRow, EventRow, SubscriptionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantEvent:
    id: int
    tenant: str
    type: str
    key: str
    subject: str | None
    version: int | None
    created_at: datetime
    content_gone_at: datetime | None
    history_gone_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantDelivery:
    """A delivery without what holds it back, which may be an operator's stop or other tenants' work."""

    id: int
    event_id: int
    tenant: str
    type: str
    key: str
    destination: str
    subscription_id: int | None
    generation: int
    status: DeliveryState
    attempt_count: int
    in_doubt: bool
    next_attempt_at: datetime | None
    final_error_code: str | None
    notification_id: str | None
    notified_at: datetime | None
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAttempt:
    """An attempt without its lease, advice to operators, and what a provider has said about our own account."""

    delivery_id: int
    attempt: int
    status: str
    outcome: str | None
    error_code: str | None
    error_message: str | None
    notification_id: str | None
    response: str | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantDeadLetter:
    """A delivery given up, without who closed it. Why an operator cancelled it is the operator's."""

    id: int
    delivery_id: int
    event_id: int
    tenant: str
    type: str
    key: str
    destination: str
    generation: int
    in_doubt: bool
    reason: ReasonClass
    error_code: str | None
    error_message: str | None
    created_at: datetime
    closed_at: datetime | None
    closed_as: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSubscription:
    """A subscription without the reason that an operator gave. One is disabled only because its receiver said so."""

    id: int
    tenant: str
    types: tuple[str, ...]
    destination: str
    state: str
    state_reason: str | None
    policy: str | None
    rate: float | None
    description: str | None
    created_at: datetime
    ask: str | None = None


@dataclass(frozen=True)
class TenantAdmin(Scoped[TenantEvent, TenantDelivery, TenantAttempt, TenantDeadLetter, TenantSubscription]):
    """An Admin for one tenant: it sees and touches that tenant's rows only, and what belongs to others is NotFound.

    What only operators may do is NotAllowed.
    """

    tenant: str = field(kw_only=True)

    async def aexplain(self, delivery_id: int) -> tuple[str, ...]:
        """Explain why a delivery is where it is, in sentences: nothing about others or who runs the service."""
        return await explain_to_tenant(await self._store(), await self._owned_delivery(delivery_id))

    explain = sync(aexplain)

    def _tenant(self, wanted: str | None) -> str | None:
        if wanted not in (None, self.tenant):
            raise NotAllowed("a tenant sees its own rows only; leave tenant out")
        return self.tenant

    def _owns(self, tenant: str) -> bool:
        return tenant == self.tenant

    def _event(self, row: EventRow) -> TenantEvent:
        return TenantEvent(
            id=row.id,
            tenant=row.tenant,
            type=row.type,
            key=row.key,
            subject=row.subject,
            version=row.version,
            created_at=row.created_at,
            content_gone_at=row.content_gone_at,
            history_gone_at=row.history_gone_at,
        )

    def _delivery(self, row: DeliveryRow) -> TenantDelivery:
        return TenantDelivery(
            id=row.id,
            event_id=row.event_id,
            tenant=row.tenant,
            type=row.type,
            key=row.key,
            destination=row.destination,
            subscription_id=row.subscription_id,
            generation=row.generation,
            status=row.status,
            attempt_count=row.attempt_count,
            in_doubt=row.in_doubt,
            next_attempt_at=row.next_attempt_at,
            final_error_code=row.final_error_code,
            notification_id=row.notification_id,
            notified_at=row.notified_at,
            expires_at=row.expires_at,
            created_at=row.created_at,
            updated_at=row.updated_at,
        )

    def _attempt(self, row: AttemptRow) -> TenantAttempt:
        row = attempt_for_tenant(row)
        return TenantAttempt(
            delivery_id=row.delivery_id,
            attempt=row.attempt,
            status=row.status,
            outcome=row.outcome,
            error_code=row.error_code,
            error_message=row.error_message,
            notification_id=row.notification_id,
            response=row.response,
            created_at=row.created_at,
            finished_at=row.finished_at,
        )

    def _dead_letter(self, row: DeadLetterRow) -> TenantDeadLetter:
        row = dead_letter_for_tenant(row)
        return TenantDeadLetter(
            id=row.id,
            delivery_id=row.delivery_id,
            event_id=row.event_id,
            tenant=row.tenant,
            type=row.type,
            key=row.key,
            destination=row.destination,
            generation=row.generation,
            in_doubt=row.in_doubt,
            reason=row.reason,
            error_code=row.error_code,
            error_message=row.error_message,
            created_at=row.created_at,
            closed_at=row.closed_at,
            closed_as=row.closed_as,
        )

    def _subscription(self, row: SubscriptionRow) -> TenantSubscription:
        return TenantSubscription(
            id=row.id,
            tenant=row.tenant,
            types=row.types,
            destination=row.destination,
            state=row.state,
            state_reason=GONE_REASON if row.state == "disabled" else None,
            policy=row.policy,
            rate=row.rate,
            description=row.description,
            created_at=row.created_at,
            ask=row.ask,
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from sendonce.admin.api import Admin

            if not name.startswith("_") and hasattr(Admin, name):
                raise NotAllowed(f"{name} is for operators; an Admin without a tenant has it")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
