"""What reconciliation asks of the database: deliveries in doubt, a person's attestation, and what is marked sent."""

from datetime import timedelta

from sendonce.domain.attempts import NO_FENCE, Fence
from sendonce.domain.limits import Limits
from sendonce.domain.serving import Served
from sendonce.store.losses import refusal
from sendonce.store.ports import Started
from sendonce.store.sqlite.connection import OwnConnection, Transaction
from sendonce.store.sqlite.holding import Holders, sendable
from sendonce.store.sqlite.orchestrating import claim_of, open_lease


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
