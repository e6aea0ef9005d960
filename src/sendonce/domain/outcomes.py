"""What an attempt came to. Which of the six it is decides everything that follows."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias


class Fault(StrEnum):
    """Whose fault it is that an attempt did not deliver."""

    RECIPIENT = "recipient"
    DESTINATION = "destination"
    CHANNEL = "channel"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver has the message, with its own id for it and its own time, where it gives them."""

    notification_id: str | None = None
    response: str | None = None
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The receiver has given the message an id, but has not confirmed it: it will be looked up."""

    notification_id: str
    response: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The receiver has refused the message, and would refuse it again."""

    code: str
    message: str = ""
    response: str | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The receiver surely has not accepted the message; trying again is safe."""

    code: str
    message: str = ""
    retry_after: timedelta | None = None
    response: str | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request may have left us and no answer came: nobody knows whether it arrived."""

    code: str
    message: str = ""
    response: str | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """Not tried, or not the destination's fault: again after a while, without spending an attempt.

    A code that begins with `our_` (our_credentials, our_server) says that the fault is ours: an alert is raised.
    """

    code: str
    message: str = ""
    again_in: timedelta | None = None
    response: str | None = None
    fault: Fault | None = None


# What becomes of an attempt whose lease is over before its result is written.
LEASE_EXPIRED = Unknown("lease_expired", "the worker stopped answering while it was sending", fault=Fault.OURS)

Outcome: TypeAlias = Delivered | Accepted | Refused | Failed | Unknown | Deferred


def is_our_own(outcome: Outcome) -> bool:
    """Return whether the cause is ours, not the receiver's: a wrong password, an unreadable secret, no channel."""
    if not isinstance(outcome, Deferred):
        return False
    return outcome.fault is Fault.OURS or outcome.code.startswith("our_")


def fault_of(outcome: Outcome) -> Fault | None:
    """Return whose fault it is; None when it arrived. By default the destination's; the channel's with `our_`."""
    if isinstance(outcome, Delivered | Accepted):
        return None
    if outcome.fault is not None:
        return outcome.fault
    return Fault.CHANNEL if is_our_own(outcome) else Fault.DESTINATION


def counts_for_breaker(outcome: Outcome, *, of_channel: bool) -> bool:
    """Whether a breaker counts it as a failure.

    The breaker of a whole channel (`of_channel`) counts the channel's own faults only: what one recipient or one
    destination does to its messages stops nobody else's. What was refused was answered.
    """
    if isinstance(outcome, Delivered | Accepted | Refused):
        return False
    fault = fault_of(outcome)
    return fault is Fault.CHANNEL or (fault is Fault.DESTINATION and not of_channel)


# What an attempt says that has asked and not sent.
FOUND = "found by a look-up; not sent again"


@dataclass(frozen=True, slots=True)
class Found:
    """The receiver has the message, since `sent_at` where it says so."""

    notification_id: str | None = None
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NotThere:
    """The receiver surely does not have the message."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The receiver could not be asked."""

    code: str
    message: str = ""
    again_in: timedelta | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class CannotTell:
    """The other side can never answer this one (too old for its memory, no id to ask by).

    `is_safe_to_repeat`: it recognises our token, so that sending once more does no harm; else `if_unsure` decides.
    """

    code: str
    message: str = ""
    is_safe_to_repeat: bool = False


LookUp: TypeAlias = Found | NotThere | NoAnswer | CannotTell
