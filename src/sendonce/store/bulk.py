"""The operations log, and what is done by filter: their ports, and what these hand out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, Self

from sendonce.store.filters import Filter

STATES = RUNNING, PAUSED, DONE, CANCELLED = "running", "paused", "done", "cancelled"
REQUEUE, REPLAY, CANCEL = "requeue", "replay", "cancel"
DEFAULT_RATE = 500.0
# What the log says of whoever brings an operation to a state.
CHANGES = {RUNNING: "resume", PAUSED: "pause", CANCELLED: "cancel"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """What a person did: who, when, what and why. With a `filter` it is done in steps from `first_id` to `upper_id`,
    and has come to `last_id`; `state` is running, paused, done or cancelled."""

    id: int
    kind: str
    operator: str
    reason: str | None
    subject: str
    state: str
    filter: str | None
    rate: float | None
    first_id: int
    last_id: int
    upper_id: int
    looked: int
    affected: int
    skipped: int
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOperation:
    """An operation that is to be done in steps: `kind` is requeue, replay or cancel, `rate` how many a second."""

    kind: str
    operator: str
    reason: str
    subject: str
    wanted: Filter
    rate: float
    first_id: int
    upper_id: int


class Found(NamedTuple):
    """One that matches: its place on the walk, its delivery, and whether that may have arrived already."""

    id: int
    nth: int
    delivery_id: int
    may_have_arrived: bool


class Window(NamedTuple):
    """A bounded step of the walk: up to which id was looked, at how many, and what matched. None: there is no more."""

    last_id: int | None
    looked: int
    found: tuple[Found, ...]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], most: int) -> Self:
        """From the rows of a window query. With `most` found, the walk has come no further than to the last of them."""
        found = tuple(Found(row[2], row[3], row[4], bool(row[5])) for row in rows if row[2] is not None)
        if len(found) == most:
            return cls(found[-1].id, found[-1].nth, found)
        return cls(rows[0][0], rows[0][1], found)


class OperationsStore(Protocol):
    """What people have done."""

    async def operations(self, *, before: int, state: str | None, limit: int) -> list[OperationRow]:
        """The newest first, with ids below `before`."""
        ...

    async def operation(self, operation_id: int) -> OperationRow | None: ...


class BulkStore(OperationsStore, Protocol):
    """What is done to all that match a filter: an operation that is kept, and can be taken up again at any time."""

    async def match(self, kind: str, wanted: Filter, *, after: int, upper: int, window: int) -> Window:
        """Look at up to `window` dead letters (requeue) or deliveries (replay, cancel) above `after`, and no more."""
        ...

    async def bounds(self, kind: str) -> tuple[int, int]:
        """The ids between which all that there is now is found: above the first, up to the second."""
        ...

    async def begin_operation(self, operation: NewOperation) -> OperationRow:
        """Enter an operation; it is running."""
        ...

    async def step(self, operation_id: int, *, window: int, most: int) -> OperationRow:
        """Look at up to `window` more, and open the next generation of up to `most` of those that match.

        What was done, and how far it has come, are one transaction under a lock on the operation: of two who step at
        once the second goes on where the first has come to. Nothing is done when it is not running.
        """
        ...

    async def set_operation_state(
        self, operation_id: int, state: str, *, operator: str, reason: str | None
    ) -> OperationRow:
        """Pause it, let it run, or cancel it, with a row of its own in the log; NotFound or NotAllowed when it is not
        there or has ended. To pause a paused one is nothing."""
        ...


def refusal(operation: OperationRow) -> str | None:
    """Why its state cannot be changed; None when it can."""
    if operation.filter is None:
        return f"operation {operation.id} ({operation.kind}) was done at once; only what is done by filter has steps"
    if operation.state in (DONE, CANCELLED):
        return f"operation {operation.id} is {operation.state}"
    return None
