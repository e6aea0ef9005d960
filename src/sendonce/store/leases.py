"""Leases: renewed while their worker lives, released when all of their attempts are settled."""

from collections.abc import Sequence
from datetime import timedelta
from secrets import randbits

from sendonce.sql.steps import Steps, rows

# As many as every reader of JSON can hold.
ID_BITS = 53
ROLL_UP = 10_000


def new_id() -> int:
    """A random id, that no lease had before: not on this database, and not in a life of it that was undone."""
    return randbits(ID_BITS)


def renew(lease_ids: Sequence[int], hold: timedelta) -> Steps[set[int]]:
    """Prolong these leases; the ids of those that are still ours. An expired one is not prolonged."""
    return {row[0] for row in (yield from rows("renew", lease_ids=list(lease_ids), hold=hold))}


def release(lease_ids: Sequence[int]) -> Steps[None]:
    """Drop leases all of whose attempts are settled."""
    yield from rows("release", lease_ids=list(lease_ids))


def is_idle() -> Steps[bool]:
    """True when nothing is due now and nothing is in flight, leases of dead workers included."""
    [[idle]] = yield from rows("is_idle")
    return bool(idle)


def roll_up_counters() -> Steps[bool]:
    """Replace many counter rows by one sum per name, a bounded step of them; True when there are more."""
    found = yield from rows("roll_up_counters", limit=ROLL_UP)
    for _, last in found:
        yield from rows("add_counter_sums", last=last)
        yield from rows("drop_counters", last=last)
    return [count for count, _ in found] == [ROLL_UP]
