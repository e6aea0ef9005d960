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
from sendonce.outbox.drafts import Draft
from sendonce.outbox.outbox import Outbox, Published
from sendonce.outbox.requests import Requested

if TYPE_CHECKING:
    from sendonce.compose import migrate
    from sendonce.desk import Desk, open_desk
    from sendonce.devtools.receive.embedded import embedded_receiver
    from sendonce.embedded import embedded_worker
    from sendonce.store.records import AttemptRow, DeadLetterRow, DeliveryRow, EventRow, SubscriptionRow

__version__ = "0.1.0.dev0"

# Imported when they are first used: an application that only records needs none of it.
_LATER = {
    "AttemptRow": "sendonce.store.records",
    "DeadLetterRow": "sendonce.store.records",
    "DeliveryRow": "sendonce.store.records",
    "Desk": "sendonce.desk",
    "EventRow": "sendonce.store.records",
    "SubscriptionRow": "sendonce.store.records",
    "embedded_receiver": "sendonce.devtools.receive.embedded",
    "embedded_worker": "sendonce.embedded",
    "migrate": "sendonce.compose",
    "open_desk": "sendonce.desk",
}

__all__ = [
    "UNIQUE",
    "Accepted",
    "Attachment",
    "AttemptRow",
    "BadDestination",
    "BadEvent",
    "CommitUnknown",
    "ConfigError",
    "DeadLetterRow",
    "Deferred",
    "Delivered",
    "DeliveryRow",
    "DeliveryState",
    "Desk",
    "Draft",
    "Email",
    "EventRow",
    "Failed",
    "IfUnsure",
    "KeyReused",
    "NotAllowed",
    "NotFound",
    "NotInTransaction",
    "Outbox",
    "PublishError",
    "Published",
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
    "Unknown",
    "__version__",
    "embedded_receiver",
    "embedded_worker",
    "migrate",
    "open_desk",
]


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
