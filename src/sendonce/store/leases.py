"""Leases: renewed while their worker lives, released when all of their attempts are settled."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from secrets import randbits
from typing import NamedTuple, TypeAlias

from sendonce.domain.attempts import Claim, Report, Result, Verdict
from sendonce.domain.outcomes import LEASE_EXPIRED
from sendonce.sql.steps import Steps, records, rows
from sendonce.store.filters import LAST

# How the database that this is carried out on settles, in the transaction that it is in.
Settled: TypeAlias = Callable[[Sequence[Result]], Steps[list[Verdict]]]
Decide: TypeAlias = Callable[[Sequence[Report]], Sequence[Result]]

# As many as every reader of JSON can hold.
ID_BITS = 53
ROLL_UP = 10_000


class _Expired(NamedTuple):
    id: int
    deliveries: tuple[int, ...]


class _Sending(NamedTuple):
    claim: Claim
    lease_id: int


def new_id() -> int:
    """A random id, that no lease had before: not on this database, and not in a life of it that was undone."""
    return randbits(ID_BITS)


def renew(lease_ids: Sequence[int], hold: timedelta) -> Steps[set[int]]:
    """Prolong these leases; the ids of those that are still ours. An expired one is not prolonged."""
    return {row[0] for row in (yield from rows("renew", lease_ids=list(lease_ids), hold=hold))}


def release(lease_ids: Sequence[int]) -> Steps[None]:
    """Drop leases all of whose attempts are settled."""
    yield from rows("release", lease_ids=list(lease_ids))


def expire(settled: Settled, limit: int, decide: Decide) -> Steps[list[Result]]:
    """Close the attempts of up to `limit` expired leases as Unknown and decide them; the results that were written."""
    found = yield from records(_Expired, "expired_leases", limit=limit)
    if not found:
        return []
    lease_ids = [lease.id for lease in found]
    # One that was settled and claimed again can be named by two of them.
    delivery_ids = list(dict.fromkeys(each for lease in found for each in lease.deliveries))
    results = yield from _close(settled, lease_ids, delivery_ids, decide)
    yield from release(lease_ids)
    return results


def adopt(settled: Settled, after: int, limit: int, decide: Decide) -> Steps[tuple[list[Result], int | None]]:
    """Close as Unknown what is being sent under a lease that is not there, among `limit` deliveries above `after`.

    Returns the results that were written, and the last id looked at; None when there are no more.
    """
    orphans = yield from rows("orphans", after=after, limit=limit)
    [(last,)] = yield from rows("last_of_step", after=after, upto=LAST, limit=limit)
    if not orphans:
        return [], last
    results = yield from _close(settled, [row[1] for row in orphans], [row[0] for row in orphans], decide)
    return results, last


def _close(
    settled: Settled, lease_ids: Sequence[int], delivery_ids: Sequence[int], decide: Decide
) -> Steps[list[Result]]:
    """Settle as Unknown what is still being sent of these deliveries under these leases."""
    found = yield from records(_Sending, "expired_claims", lease_ids=list(lease_ids), delivery_ids=list(delivery_ids))
    if not found:
        return []
    results = list(decide([Report(each.claim, each.lease_id, LEASE_EXPIRED) for each in found]))
    verdicts = yield from settled(results)
    return [result for result, verdict in zip(results, verdicts, strict=True) if verdict is Verdict.APPLIED]


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
