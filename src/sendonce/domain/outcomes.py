"""What an attempt came to. Which of the six it is decides everything that follows."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Delivered:
    """The other side has it, with its own id for it where it gives one, and its own time where that is known."""

    notification_id: str | None = None
    response: str | None = None
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The other side has given it an id but not confirmed it: it will be looked up."""

    notification_id: str
    response: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The other side said no and will keep saying no."""

    code: str
    message: str = ""
    response: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing was accepted, surely; trying again is safe."""

    code: str
    message: str = ""
    retry_after: timedelta | None = None
    response: str | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request may have left us and no answer came back: nobody knows."""

    code: str
    message: str = ""
    response: str | None = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """Not tried, or not the destination's fault: again after a while, without spending an attempt.

    A code that begins with `our_` (our_credentials, our_server) says that the fault is ours: an alert is raised.
    """

    code: str
    message: str = ""
    again_in: timedelta | None = None
    response: str | None = None


# What becomes of an attempt whose lease is over before its result is written.
LEASE_EXPIRED = Unknown("lease_expired", "the worker stopped answering while it was sending")

Outcome: TypeAlias = Delivered | Accepted | Refused | Failed | Unknown | Deferred


# What an attempt says that has asked and not sent.
FOUND = "found by a look-up; not sent again"


@dataclass(frozen=True, slots=True)
class Found:
    """The other side has the message, since `sent_at` where it says so."""

    notification_id: str | None = None
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NotFound:
    """The other side surely does not have the message."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The other side could not be asked."""

    code: str
    message: str = ""
    again_in: timedelta | None = None


@dataclass(frozen=True, slots=True)
class CannotTell:
    """The other side can never answer this one (too old for its memory, no id to ask by).

    `is_safe_to_repeat`: it recognises our token, so that sending once more does no harm; else `if_unsure` decides.
    """

    code: str
    message: str = ""
    is_safe_to_repeat: bool = False


LookUp: TypeAlias = Found | NotFound | NoAnswer | CannotTell
