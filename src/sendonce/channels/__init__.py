"""Ways to reach the outside: one file each, and a registry of them by the scheme of the destination."""

from sendonce.channels.protocol import Asking, Channel, Message
from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import (
    Accepted,
    CannotTell,
    Deferred,
    Delivered,
    Failed,
    Fault,
    Found,
    LookUp,
    NoAnswer,
    NotThere,
    Outcome,
    Refused,
    Unknown,
)

__all__ = [
    "Accepted",
    "Asking",
    "CannotTell",
    "Channel",
    "Channels",
    "Deferred",
    "Delivered",
    "Failed",
    "Fault",
    "Found",
    "LookUp",
    "Message",
    "NoAnswer",
    "NotThere",
    "Outcome",
    "Refused",
    "Unknown",
]
