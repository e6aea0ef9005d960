"""Record an intent in your own transaction; it reaches its destination once in effect."""

from typing import TYPE_CHECKING

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.emails import Attachment, Email
from sendonce.domain.events import UNIQUE
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Refused, Unknown
from sendonce.domain.policies import IfUnsure
from sendonce.domain.requests import RecipientState, RequestState, RequestStatus
from sendonce.errors import (
    BadDestination,
    BadEvent,
    BadMessage,
    BadWebhook,
    CommitUnknown,
    ConfigError,
    KeyReused,
    NotAllowed,
    NotFound,
    NotInTransaction,
    PublishError,
    RerunRefused,
    SchemaMismatch,
    SendonceError,
    ServerReadOnly,
    StoreBusy,
    StoreError,
)
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox, Published
from sendonce.outbox.requests import Requested

if TYPE_CHECKING:
    from sendonce.admin.advice import Advice
    from sendonce.admin.api import Admin
    from sendonce.admin.explain import TenantExplanation
    from sendonce.admin.tenants import (
        TenantAdmin,
        TenantAttempt,
        TenantDeadLetter,
        TenantDeadLetterGroup,
        TenantDelivery,
        TenantEvent,
        TenantRecipient,
        TenantRequest,
        TenantRequestState,
        TenantSubscription,
    )
    from sendonce.compose import amigrate, migrate
    from sendonce.devtools.receive.service import aembedded_receiver, embedded_receiver
    from sendonce.embedded import (
        aconsume,
        aembedded_consumers,
        aembedded_worker,
        consume,
        embedded_consumers,
        embedded_worker,
    )
    from sendonce.inbox.inbox import Inbox
    from sendonce.inbox.receipts import Receipt
    from sendonce.store.filters import Filter, Page
    from sendonce.store.records import AttemptRow, DeadLetterRow, DeliveryRow, EventRow, SubscriptionRow

__version__ = "0.1.0.dev0"

# Imported when they are first used: an application that only records needs none of it.
_LATER = {
    "Admin": "sendonce.admin.api",
    "Advice": "sendonce.admin.advice",
    "AttemptRow": "sendonce.store.records",
    "DeadLetterRow": "sendonce.store.records",
    "DeliveryRow": "sendonce.store.records",
    "EventRow": "sendonce.store.records",
    "Filter": "sendonce.store.filters",
    "Inbox": "sendonce.inbox.inbox",
    "Page": "sendonce.store.filters",
    "Receipt": "sendonce.inbox.receipts",
    "SubscriptionRow": "sendonce.store.records",
    "TenantAdmin": "sendonce.admin.tenants",
    "TenantAttempt": "sendonce.admin.tenants",
    "TenantDeadLetter": "sendonce.admin.tenants",
    "TenantDeadLetterGroup": "sendonce.admin.tenants",
    "TenantDelivery": "sendonce.admin.tenants",
    "TenantEvent": "sendonce.admin.tenants",
    "TenantExplanation": "sendonce.admin.explain",
    "TenantRecipient": "sendonce.admin.tenants",
    "TenantRequest": "sendonce.admin.tenants",
    "TenantRequestState": "sendonce.admin.tenants",
    "TenantSubscription": "sendonce.admin.tenants",
    "aconsume": "sendonce.embedded",
    "aembedded_consumers": "sendonce.embedded",
    "aembedded_receiver": "sendonce.devtools.receive.service",
    "aembedded_worker": "sendonce.embedded",
    "amigrate": "sendonce.compose",
    "consume": "sendonce.embedded",
    "embedded_consumers": "sendonce.embedded",
    "embedded_receiver": "sendonce.devtools.receive.service",
    "embedded_worker": "sendonce.embedded",
    "migrate": "sendonce.compose",
}

__all__ = [
    "UNIQUE",
    "Accepted",
    "Admin",
    "Advice",
    "Attachment",
    "AttemptRow",
    "BadDestination",
    "BadEvent",
    "BadMessage",
    "BadWebhook",
    "CommitUnknown",
    "ConfigError",
    "DeadLetterRow",
    "Deferred",
    "Delivered",
    "DeliveryRow",
    "DeliveryState",
    "Draft",
    "Email",
    "EventRow",
    "Failed",
    "Filter",
    "IfUnsure",
    "Inbox",
    "KeyReused",
    "NotAllowed",
    "NotFound",
    "NotInTransaction",
    "Outbox",
    "Page",
    "PublishError",
    "Published",
    "Receipt",
    "RecipientState",
    "Refused",
    "RequestState",
    "RequestStatus",
    "Requested",
    "RerunRefused",
    "SchemaMismatch",
    "SendonceError",
    "ServerReadOnly",
    "StoreBusy",
    "StoreError",
    "SubscriptionRow",
    "TenantAdmin",
    "TenantAttempt",
    "TenantDeadLetter",
    "TenantDeadLetterGroup",
    "TenantDelivery",
    "TenantEvent",
    "TenantExplanation",
    "TenantRecipient",
    "TenantRequest",
    "TenantRequestState",
    "TenantSubscription",
    "Unknown",
    "__version__",
    "aconsume",
    "aembedded_consumers",
    "aembedded_receiver",
    "aembedded_worker",
    "amigrate",
    "consume",
    "embedded_consumers",
    "embedded_receiver",
    "embedded_worker",
    "migrate",
]


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
