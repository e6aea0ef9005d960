"""What reconciliation asks of the database: deliveries in doubt, a person's attestation, and what is marked sent."""

from datetime import datetime, timedelta

from sendonce.domain.attempts import NO_FENCE, Fence
from sendonce.domain.limits import Limits
from sendonce.domain.serving import Served
from sendonce.store.filters import Filter
from sendonce.store.losses import refusal
from sendonce.store.ports import Started
from sendonce.store.records import DeliveryRow
from sendonce.store.sqlite import lists
from sendonce.store.sqlite.connection import OwnConnection, Transaction, stamp
from sendonce.store.sqlite.holding import Holders, sendable
from sendonce.store.sqlite.orchestrating import claim_of, open_lease

WINDOW = 1000
# As on PostgreSQL: a clock may have been set back a little, too.
LONGEST_TRANSACTION = timedelta(hours=1)


class Reconciling:
    """See `OrchestratorStore`, `OperatorStore` and `ReadStore`."""

    _writer: OwnConnection
    _reader: OwnConnection

    async def start_doubtful(
        self,
        worker_id: int,
        limit: int,
        hold: timedelta,
        *,
        after: int,
        served: Served | None = None,
        fence: Fence = NO_FENCE,
    ) -> Started:
        return await self._writer.run(_start_doubtful, worker_id, limit, hold, after, Limits(served=served), fence)

    async def completed_after(self, after: int, *, since: datetime, limit: int) -> list[DeliveryRow]:
        return await self._reader.run(_completed_after, after, since, limit)


def _start_doubtful(
    transaction: Transaction, worker_id: int, limit: int, hold: timedelta, after: int, limits: Limits, fence: Fence
) -> Started:
    """Asking is not sending: a rate or a breaker holds nothing back here, a stop or a pause does."""
    if refused := transaction.carry_out(refusal(fence)):
        return Started(None, refused=refused)
    holders = Holders.now(transaction)._replace(breakers=frozenset())
    if limit < 1 or holders.is_all_stopped:
        return Started(None)
    while rows := transaction.fetch("claim_doubtful", {"after": after, "limit": limit}):
        good = sendable([(*row[:-1], None) for row in rows], holders, limits, None)
        if good:
            return Started(open_lease(transaction, worker_id, [claim_of(row) for row in good], hold))
        after = rows[-1][0]
    return Started(None)


def _completed_after(transaction: Transaction, after: int, since: datetime, limit: int) -> list[DeliveryRow]:
    found: list[int] = []
    values = {"since": stamp(since), "window": WINDOW}
    while len(found) < limit:
        rows = transaction.fetch("completed_window", {**values, "after": after})
        if not rows:
            break
        found += [delivery_id for delivery_id, is_wanted in rows if is_wanted]
        after = rows[-1][0]
    return lists.delivery_rows(transaction, found[:limit], Filter(limit=limit))[::-1]
