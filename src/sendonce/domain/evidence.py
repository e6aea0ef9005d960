"""Late evidence: what comes in about a send when its attempt has ended, and what it does. Pure.

A callback of a provider, a line of a settlement file or of a mail log says that something was delivered, or that it was
refused. History is never edited: what waits is settled by it, what has ended is only compared with it.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.texts import CODE_LENGTH, ID_LENGTH
from sendonce.errors import ConfigError

LONGEST_SOURCE = 200


class Told(StrEnum):
    """What evidence says of a send: the other side has it, or it said no and will keep saying no."""

    DELIVERED = "Delivered"
    REFUSED = "Refused"


class Effect(StrEnum):
    """What evidence has done. The last two write nothing: the same evidence may be given again."""

    SETTLED = "settled"
    KNOWN = "known"
    CONTRADICTS = "contradicts"
    NOTED = "noted"
    IN_FLIGHT = "in_flight"
    UNMATCHED = "unmatched"


class Move(StrEnum):
    """How evidence settles a delivery."""

    PROVE = "prove"
    GIVE_UP = "give_up"
    ATTEST = "attest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that came in. It is about the delivery with this token, or with this id of the other side's.

    `source` says who says so (`postmark`, `bank-2026-01.csv`). `reference` is what the source calls it: the same one
    counts once. `error_code` is why it was refused; `occurred_at` is when it happened, by the source.
    """

    source: str
    outcome: Told
    token: str | None = None
    notification_id: str | None = None
    reference: str | None = None
    occurred_at: datetime | None = None
    error_code: str | None = None
    details: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcome", told(self.outcome))
        if not self.source.strip() or len(self.source.encode("utf-8", "replace")) > LONGEST_SOURCE:
            raise ConfigError(f"the source of evidence is a name of at most {LONGEST_SOURCE} bytes")
        if not self.token and not self.notification_id:
            raise ConfigError("evidence needs a token or a notification id: without one nobody knows what it is about")
        for name, limit in (("token", ID_LENGTH), ("notification_id", ID_LENGTH), ("reference", ID_LENGTH),
                            ("error_code", CODE_LENGTH)):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not 1 <= len(value.encode("utf-8", "replace")) <= limit:
                raise ConfigError(f"the {name} of evidence is 1 to {limit} bytes long")
        if self.occurred_at is not None and self.occurred_at.tzinfo is None:
            raise ConfigError("occurred_at needs a time zone, as in 2026-01-31T12:00:00+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What evidence is about: the newest generation of a delivery.

    `letter_id` is its dead letter, if it has one; `is_replay`: the generation before it had been delivered.
    """

    id: int
    status: DeliveryState
    in_doubt: bool
    is_proven: bool
    notification_id: str | None
    attempt_count: int
    created_at: datetime
    is_replay: bool
    letter_id: int | None
    closed_as: str | None


def told(text: object) -> Told:
    """Delivered or Refused, in any case of letters; ConfigError for what is neither."""
    for each in Told:
        if str(text).strip().lower() == each.value.lower():
            return each
    raise ConfigError("the outcome of evidence is Delivered or Refused: it settles what is sure, and nothing else")


def weigh(target: Target, evidence: Evidence) -> tuple[Effect, Move | None]:
    """Say what evidence does to a delivery."""
    is_delivered = evidence.outcome is Told.DELIVERED
    if target.is_replay and (evidence.occurred_at is None or evidence.occurred_at < target.created_at):
        return Effect.KNOWN, None  # it is about what was delivered before somebody had it sent once more
    match target.status:
        case DeliveryState.IN_PROGRESS:
            return Effect.IN_FLIGHT, None
        case DeliveryState.PENDING | DeliveryState.PENDING_RETRY if target.is_proven:
            return (Effect.KNOWN if is_delivered else Effect.CONTRADICTS), None
        case DeliveryState.PENDING | DeliveryState.PENDING_RETRY:
            return Effect.SETTLED, Move.PROVE if is_delivered else Move.GIVE_UP
        case DeliveryState.COMPLETED:
            ids = {target.notification_id, evidence.notification_id} - {None}
            return (Effect.KNOWN if is_delivered and len(ids) < 2 else Effect.CONTRADICTS), None
    if not target.in_doubt:
        return (Effect.CONTRADICTS if is_delivered else Effect.KNOWN), None
    if is_delivered and target.letter_id is not None and target.closed_as is None:
        return Effect.SETTLED, Move.ATTEST
    # A bounce tells that it went out; whether it is sent elsewhere is for the person who decides about it.
    return Effect.NOTED, None
