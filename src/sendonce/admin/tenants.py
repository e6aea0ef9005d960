"""What a tenant may see and do. Each record is built from the fields listed here: what is not listed is not shown."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from sendonce.admin import dead_letters
from sendonce.admin.explain import TenantExplanation, explain_to_tenant
from sendonce.admin.explain.snapshot import attempt_for_tenant, dead_letter_for_tenant
from sendonce.admin.scoped import Scoped
from sendonce.admin.session import sync
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.requests import RequestState, RequestStatus
from sendonce.engine.subscriptions import GONE_REASON
from sendonce.errors import NotAllowed
from sendonce.store.filters import Page
from sendonce.store.records import (
    AttemptRow,
    DeadLetterGroup,
    DeadLetterRow,
    DeliveryRow,
    EventRow,
    RequestRow,
    SubscriptionRow,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = TypeVar("Row")
Shown = TypeVar("Shown")
Record = TypeVar("Record", bound="DataclassInstance")

MINUTE = timedelta(minutes=1)


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
class TenantDeadLetterGroup:
    """So many open dead letters of one type with the same reason and error code, at one host."""

    reason: ReasonClass
    error_code: str | None
    type: str
    host: str
    count: int
    oldest_at: datetime
    newest_at: datetime


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRequest:
    """A request, and how far it is: of its required recipients so many are notified, open or given up."""

    id: int
    tenant: str
    type: str
    subject: str
    version: int
    event_id: int
    created_at: datetime
    status: RequestStatus
    required: int
    notified: int
    open: int
    given_up: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRecipient:
    """One recipient of a request and its newest delivery: `destination` as it was asked for, `sent_to` as it is now."""

    destination: str
    sent_to: str | None
    is_required: bool
    delivery_id: int | None
    status: DeliveryState | None
    notified_at: datetime | None
    notification_id: str | None
    final_error_code: str | None
    attempt_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRequestState:
    """A request as it is now, with its recipients, the required ones first."""

    id: int
    tenant: str
    type: str
    subject: str
    version: int
    event_id: int
    created_at: datetime
    status: RequestStatus
    recipients: tuple[TenantRecipient, ...]


def _shown(kind: type[Record], row: object, **instead: object) -> Record:
    """Build what a tenant sees of a row: the fields that are listed for it, and no others."""
    listed = [each.name for each in fields(kind) if each.name not in instead]
    return kind(**{name: getattr(row, name) for name in listed}, **instead)


@dataclass(frozen=True)
class TenantAdmin(
    Scoped[
        TenantEvent,
        TenantDelivery,
        TenantAttempt,
        TenantDeadLetter,
        TenantDeadLetterGroup,
        TenantSubscription,
        TenantRequest,
        TenantRequestState,
    ]
):
    """An Admin for one tenant: it sees and touches that tenant's rows only, and what belongs to others is NotFound.

    What only operators may do is NotAllowed. Ids are counted for all tenants together, so a tenant's own ids tell
    already how much there is of everything. The id with which a list goes on may be another's, and tells no more than
    that: nothing can be asked about it, and when its row was made is told to the minute only.
    """

    tenant: str = field(kw_only=True)

    async def aexplain(self, delivery_id: int) -> TenantExplanation:
        """Explain why a delivery is where it is, and what you can do: nothing about others or who runs the service."""
        told = await explain_to_tenant(await self._store(), await self._owned_delivery(delivery_id))
        advice = tuple(each for each in told.advice if hasattr(type(self), each.verb))
        return TenantExplanation(sentences=told.sentences, advice=advice)

    explain = sync(aexplain)

    def _tenant(self, wanted: str | None) -> str | None:
        if wanted not in (None, self.tenant):
            raise NotAllowed("a tenant sees its own rows only; leave tenant out")
        return self.tenant

    def _owns(self, tenant: str) -> bool:
        return tenant == self.tenant

    async def _open_dead_letter(self, dead_letter_id: int) -> DeadLetterRow:
        row = await self._owned_dead_letter(dead_letter_id)
        dead_letters.check_open(dead_letter_for_tenant(row))
        return row

    def _page(self, found: Page[Row], show: Callable[[Row], Shown]) -> Page[Shown]:
        shown = super()._page(found, show)
        back_to = shown.looked_back_to
        if back_to is None or any(getattr(each, "id", None) == shown.next_before for each in found):
            return shown
        return replace(shown, looked_back_to=back_to.replace(second=0, microsecond=0) + MINUTE)

    def _event(self, row: EventRow) -> TenantEvent:
        return _shown(TenantEvent, row)

    def _delivery(self, row: DeliveryRow) -> TenantDelivery:
        return _shown(TenantDelivery, row)

    def _attempt(self, row: AttemptRow) -> TenantAttempt:
        return _shown(TenantAttempt, attempt_for_tenant(row))

    def _dead_letter(self, row: DeadLetterRow) -> TenantDeadLetter:
        return _shown(TenantDeadLetter, dead_letter_for_tenant(row))

    def _group(self, row: DeadLetterGroup) -> TenantDeadLetterGroup:
        return _shown(TenantDeadLetterGroup, row)

    def _subscription(self, row: SubscriptionRow) -> TenantSubscription:
        return _shown(TenantSubscription, row, state_reason=GONE_REASON if row.state == "disabled" else None)

    def _request(self, row: RequestRow) -> TenantRequest:
        return _shown(TenantRequest, row)

    def _request_state(self, row: RequestState) -> TenantRequestState:
        recipients = tuple(_shown(TenantRecipient, each) for each in row.recipients)
        return _shown(TenantRequestState, row, recipients=recipients)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from sendonce.admin.api import Admin

            if not name.startswith("_") and hasattr(Admin, name):
                raise NotAllowed(f"{name} is for operators; an Admin without a tenant has it")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
