"""A delivery: one event on its way to one destination.

Pending ──▶ InProgress ──▶ Completed
 │           ▲      │
 │           │      ├────▶ PendingRetry ──▶ DeadLettered   (given up; a person may open the next generation)
 │           │      │           │                ▲
 │           └──────┼───────────┘ when due       │
 │                  └──── refused, exhausted, expired: PendingRetry and DeadLettered in one write
 └──── cancelled before the first attempt ───────┘
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NewType

from sendonce.domain.policies import IfUnsure

EventId = NewType("EventId", int)
DeliveryId = NewType("DeliveryId", int)
SubscriptionId = NewType("SubscriptionId", int)


class DeliveryState(StrEnum):
    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    PENDING_RETRY = "PendingRetry"
    COMPLETED = "Completed"
    DEAD_LETTERED = "DeadLettered"

    @property
    def is_final(self) -> bool:
        return not ALLOWED[self]


ALLOWED: dict[DeliveryState, frozenset[DeliveryState]] = {
    DeliveryState.PENDING: frozenset({DeliveryState.IN_PROGRESS, DeliveryState.DEAD_LETTERED}),
    DeliveryState.IN_PROGRESS: frozenset(
        {DeliveryState.COMPLETED, DeliveryState.PENDING_RETRY, DeliveryState.DEAD_LETTERED}
    ),
    DeliveryState.PENDING_RETRY: frozenset({DeliveryState.IN_PROGRESS, DeliveryState.DEAD_LETTERED}),
    DeliveryState.COMPLETED: frozenset(),
    DeliveryState.DEAD_LETTERED: frozenset(),
}


class ReasonClass(StrEnum):
    """Why a delivery was given up."""

    REFUSED = "refused"
    EXHAUSTED = "exhausted"
    EXPIRED = "expired"
    IN_DOUBT = "in_doubt"
    CANCELLED = "cancelled"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What decide() needs to know of a delivery whose attempt has just ended, before that result is counted.

    `can_look_up` is None when nobody here knows the channel. `time_left` is None without a deadline. `put_off_for`: how
    long ago the other side began to put it off, without an end in between.
    """

    id: DeliveryId
    attempt_count: int = 0
    deferred_count: int = 0
    in_doubt: bool = False
    can_look_up: bool | None = False
    time_left: timedelta | None = None
    if_unsure: IfUnsure | None = None
    put_off_for: timedelta = timedelta(0)
