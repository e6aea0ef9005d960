"""What the consistency check needs of a database: bounded looks at one moment each, and nothing that writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from sendonce.sql.steps import Steps, records, rows
from sendonce.store.records import ALIVE
from sendonce.store.rules import Broken

# Of one check no more ids are looked for in one step.
FOUND_CAP = 1000
# A step over events looks at no more of them than have this many deliveries each, taken together.
DELIVERIES_EACH = 4
LAST_ID = 2**63 - 1


class Walk(StrEnum):
    """What is walked through, by its id, in this order."""

    EVENTS = "events"
    DELIVERIES = "deliveries"
    LEASES = "leases"
    REQUESTS = "requests"
    OPERATIONS = "operations"
    MESSAGES = "messages"


# The check that compares an event with its deliveries.
ROUTED = "routed"

# The query that says how far a step goes.
SPANS = {
    Walk.EVENTS: "event_span",
    Walk.DELIVERIES: "delivery_span",
    Walk.LEASES: "lease_span",
    Walk.REQUESTS: "request_span",
    Walk.OPERATIONS: "operation_span",
    Walk.MESSAGES: "message_span",
}

# How long each of these can be: no lease is longer than the settings allow, with a moment for clocks; what has expired
# is closed by the next worker; and an operation by filter makes a step every few seconds.
SPANS_OF_TIME: Mapping[str, timedelta] = {
    "longest": timedelta(hours=1, minutes=1),
    "overdue": timedelta(minutes=10),
    "abandoned": timedelta(hours=1),
    "alive": ALIVE,
}


@dataclass(frozen=True, slots=True)
class Times:
    """What has ended is counted by two times: `surely` is long enough before, and `until` a little after, the moment at
    which the counters were read."""

    surely: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Tally:
    """How many deliveries have ended by the later of two times, and how many surely by the earlier."""

    completed: int = 0
    completed_surely: int = 0
    dead_lettered: int = 0
    dead_lettered_surely: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.completed + other.completed,
            self.completed_surely + other.completed_surely,
            self.dead_lettered + other.dead_lettered,
            self.dead_lettered_surely + other.dead_lettered_surely,
        )


@dataclass(frozen=True, slots=True)
class VerifyFacts:
    """What is true of the whole at one moment: the sums of the counters, who works, and how many leases have expired.

    `counts_removals`: everything that was ever removed from this database was counted.
    """

    now: datetime
    completed: int
    dead_lettered: int
    removed_completed: int
    removed_dead_lettered: int
    counts_removals: bool
    workers: int
    expired_leases: int


@dataclass(frozen=True, slots=True)
class Inspected:
    """One step: so many rows up to this id, whether there are more, and the ids that each check has found.

    `unrouted`: of so many events nobody has written down how many deliveries they were routed to.
    """

    looked: int
    upto: int
    has_more: bool
    found: Mapping[str, Sequence[int]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    unrouted: int = 0


class VerifyStore(Protocol):
    """Reads only, and each call is one moment of the database: what changes meanwhile is seen as before or as after."""

    async def verify_facts(self) -> VerifyFacts: ...

    async def inspect(
        self, walk: Walk, checks: Sequence[str], after: int, *, limit: int, ended: Times | None = None
    ) -> Inspected:
        """Look at up to `limit` rows with ids above `after`; the last step also at all ids above these, where rows may
        be that belong to nothing. `ended`: also count what has."""
        ...

    async def inspect_again(self, checks: Sequence[str], after: int, upto: int) -> Mapping[str, Sequence[int]]:
        """The same checks once more, on the ids above `after` up to and including `upto`."""
        ...

    async def broken_rules(self) -> list[Broken]:
        """What of the schema is not there, is switched off, or is not what the migrations made."""
        ...


def verify_facts() -> Steps[VerifyFacts]:
    """What is true of the whole at one moment."""
    [facts] = yield from records(VerifyFacts, "verify_facts", **SPANS_OF_TIME)
    return facts


def inspect(
    walk: Walk, checks: Sequence[str], after: int, *, limit: int, ended: Times | None = None
) -> Steps[Inspected]:
    """Look at up to `limit` rows with ids above `after`; the last step also at all ids above these, where rows may
    be that belong to nothing. `ended`: also count what has."""
    [[looked, last, has_more]] = yield from rows(SPANS[walk], after=after, limit=limit, rows=limit * DELIVERIES_EACH)
    upto = last if has_more else LAST_ID
    found = yield from inspect_again(checks, after, upto)
    tally = Tally()
    if ended is not None:
        [tally] = yield from records(
            Tally, "tally_ended", after=after, upto=upto, until=ended.until, surely=ended.surely
        )
    unrouted = 0
    if ROUTED in checks:
        [[unrouted]] = yield from rows("count_unrouted", after=after, upto=upto)
    return Inspected(looked, upto, bool(has_more), found, tally, unrouted)


def inspect_again(checks: Sequence[str], after: int, upto: int) -> Steps[Mapping[str, Sequence[int]]]:
    """The same checks once more, on the ids above `after` up to and including `upto`."""
    found: dict[str, list[int]] = {}
    for check in checks:
        wrong = yield from rows(f"verify_{check}", after=after, upto=upto, cap=FOUND_CAP, **SPANS_OF_TIME)
        if wrong:
            found[check] = [row[0] for row in wrong]
    return found
