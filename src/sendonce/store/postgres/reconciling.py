"""What reconciliation asks of the database: deliveries in doubt, a person's attestation, and what is marked sent."""

from datetime import datetime, timedelta

from sendonce.domain.attempts import NO_FENCE, Fence
from sendonce.domain.limits import Limits
from sendonce.domain.serving import Served
from sendonce.store.filters import Filter
from sendonce.store.ports import Started
from sendonce.store.postgres.orchestrating import Orchestrating
from sendonce.store.postgres.reading import Reading
from sendonce.store.records import DeliveryRow

WINDOW = 1000
# A row's time is that of its transaction's beginning, and others may have got lower ids since.
LONGEST_TRANSACTION = timedelta(hours=1)
_LAST = 2**63 - 1


class Reconciling(Orchestrating, Reading):
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
        """See OrchestratorStore."""
        while True:
            values, limits = {"limit": limit, "after": after}, Limits(served=served)
            claimed = await self._claim("start_doubtful", values, worker_id, hold, limits, fence)
            if claimed.lease is not None or not claimed.held:
                return Started(claimed.lease, refused=claimed.refused)
            # All of these are stopped, paused or not served here; there may be others behind them.
            after = claimed.until[1]

    async def completed_after(self, after: int, *, since: datetime, limit: int) -> list[DeliveryRow]:
        """See ReadStore."""
        found: list[int] = []
        while len(found) < limit:
            rows = await self.people.fetch("completed_window", {"after": after, "since": since, "window": WINDOW})
            if not rows:
                break
            found += [delivery_id for delivery_id, is_wanted in rows if is_wanted]
            after = rows[-1][0]
        return (await self._delivery_rows(found[:limit], Filter(limit=limit)))[::-1]
