"""What retention and erasure need of a database: their ports, and what these hand out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

# Called with what is about to go, one document for each event, before it is gone; whatever this raises, it stays.
Archive: TypeAlias = Callable[[Sequence[Mapping[str, object]]], None]

# What retention keeps beside events; its turn is taken like that of a stage.
REST = "rest"


class Stage(StrEnum):
    """What goes, in this order: the content, then the deliveries with their attempts, then the event with its key."""

    PAYLOADS = "payloads"
    HISTORY = "history"
    KEYS = "keys"


@dataclass(frozen=True, slots=True)
class Turn:
    """A worker's right to go on with one part of retention, renewed with every step."""

    worker_id: int
    hold: timedelta


@dataclass(frozen=True, slots=True)
class Step:
    """What one step came to. `last_id`: the last event looked at; None when no other was recorded long enough ago, or
    when the turn was lost."""

    last_id: int | None
    events: int = 0
    deliveries: int = 0


@dataclass(frozen=True, slots=True)
class Reached:
    """How far one part of retention has come: the first event that it has not looked at, and when it last began at the
    first of all."""

    part: str
    begun_at: datetime
    next_at: datetime | None

    def behind(self, now: datetime, age: timedelta) -> timedelta:
        """For how long at most something is there that should be gone. A pass that has just begun anew is not behind:
        the one before it came to its end."""
        if self.next_at is None:
            return timedelta(0)
        return max(timedelta(0), min(now - self.next_at - age, now - self.begun_at))


@dataclass(frozen=True, slots=True)
class Person:
    """Whose content is to be erased: everything to one destination, or everything about one subject."""

    destination: str | None = None
    subject: str | None = None
    tenant: str | None = None


class Facts(NamedTuple):
    """One event that has something of a person, also under an address it was corrected to or from. `waiting`: their
    deliveries that can be cancelled; `is_busy`: one is being sent. `is_shared`: others are sent the same payload;
    `is_needed`: and one of these has not ended, or can be requeued. `contents`: how many of their own are kept."""

    event_id: int
    has_payload: bool
    deliveries: tuple[int, ...]
    waiting: tuple[int, ...]
    is_busy: bool
    is_shared: bool
    is_needed: bool
    contents: int


@dataclass(frozen=True, slots=True)
class Erased:
    """What was taken away: from so many events the payload, so many contents of their own, and from so many deliveries
    what the other side has said. `kept`: payloads that others share; `busy`: events left as they are for now."""

    events: int = 0
    payloads: int = 0
    contents: int = 0
    deliveries: int = 0
    kept: int = 0
    busy: int = 0

    def __add__(self, other: "Erased") -> "Erased":
        return Erased(
            self.events + other.events,
            self.payloads + other.payloads,
            self.contents + other.contents,
            self.deliveries + other.deliveries,
            self.kept + other.kept,
            self.busy + other.busy,
        )


class RetentionStore(Protocol):
    """What goes when its time has come. Steps are bounded, and each is one transaction: a crash leaves whole steps."""

    async def take_turn(self, part: str, turn: Turn, *, whole: timedelta) -> int | None:
        """For one worker, when a pass is due: the event after which to go on. It is 0 when the last pass that began at
        the first event is longer ago than `whole`. None for all others."""
        ...

    async def end_turn(self, part: str, turn: Turn, *, wait: timedelta) -> None:
        """The pass is over; the next one is due after `wait`."""
        ...

    async def pass_by(self, stage: Stage, last_id: int) -> None:
        """A person has gone as far as this event: the workers, and whoever asks how far retention is, need not look at
        what comes before it. Nothing where a worker is at it just now."""
        ...

    async def retain(
        self,
        stage: Stage,
        after: int,
        *,
        limit: int,
        age: timedelta,
        turn: Turn | None = None,
        archive: Archive | None = None,
    ) -> Step:
        """Look at up to `limit` events with ids above `after`, and take away what ended longer than `age` ago.

        Nothing goes of an event that has an open delivery or an open dead letter. The history of a request goes with
        its event.
        """
        ...

    async def count_old(self, stage: Stage, after: int, *, limit: int, age: timedelta) -> Step:
        """The same step, counted only."""
        ...

    async def drop_rest(self, *, limit: int, workers: timedelta | None, operations: timedelta | None) -> int:
        """Drop secrets that have ended, and rows of workers and of the operations log that old; how many were."""
        ...

    async def drop_inbox(self, *, limit: int, keep: timedelta | None, contents: timedelta | None = None) -> int:
        """Drop messages that ended, evidence that came in and receipts that were last seen so long ago; how many were.
        Before that the `contents` of what ended so long ago."""
        ...

    async def log_upkeep(
        self, kind: str, *, operator: str, reason: str, subject: str, affected: int, details: str
    ) -> int:
        """Write into the operations log what was done by hand; the row's id."""
        ...


class AuditStore(Protocol):
    """Whose turn it is to check what is marked sent: one worker's at a time."""

    async def take_audit(self, turn: Turn) -> datetime | None:
        """For one worker, when an audit is due: the database's time. None for all others."""
        ...

    async def keep_audit(self, turn: Turn) -> bool:
        """Go on with it; False when another worker has taken it over."""
        ...

    async def end_audit(self, turn: Turn, *, wait: timedelta) -> None:
        """It is over; the next one is due after `wait`."""
        ...


class ErasureStore(Protocol):
    """Takes away what one person was sent and keeps that it was: the fact, the digest and the token."""

    async def events_of(self, person: Person, after: int, *, limit: int) -> tuple[list[int], int | None]:
        """A bounded step up the deliveries, or for a subject the events: the events found, and the last id looked at;
        None when there are no more."""
        ...

    async def facts_of(self, event_ids: Sequence[int], person: Person) -> list[Facts]:
        """What of these events is the person's, in the order of their ids."""
        ...

    async def erase(self, event_ids: Sequence[int], person: Person, *, shared: bool, operator: str) -> Erased:
        """Blank what has ended. `shared`: payloads too that others were sent, once these have ended."""
        ...
