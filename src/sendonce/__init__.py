"""Record an intent in your own transaction; it reaches its destination once in effect."""

from sendonce.domain.emails import Attachment, Email
from sendonce.domain.events import UNIQUE
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Refused, Unknown
from sendonce.domain.policies import IfUnsure
from sendonce.errors import (
    BadDestination,
    BadEvent,
    ConfigError,
    KeyReused,
    NotAllowed,
    NotInTransaction,
    PublishError,
    SchemaMismatch,
    SendonceError,
    StoreBusy,
    StoreError,
)
from sendonce.outbox.drafts import Draft
from sendonce.outbox.outbox import Outbox, Published

__version__ = "0.1.0.dev0"

__all__ = [
    "UNIQUE",
    "Accepted",
    "Attachment",
    "BadDestination",
    "BadEvent",
    "ConfigError",
    "Deferred",
    "Delivered",
    "Draft",
    "Email",
    "Failed",
    "IfUnsure",
    "KeyReused",
    "NotAllowed",
    "NotInTransaction",
    "Outbox",
    "PublishError",
    "Published",
    "Refused",
    "SchemaMismatch",
    "SendonceError",
    "StoreBusy",
    "StoreError",
    "Unknown",
    "__version__",
]
