"""What reconciliation asks of the database: deliveries in doubt, a person's attestation, and what is marked sent."""

from datetime import timedelta

from sendonce.domain.attempts import NO_FENCE, Fence
from sendonce.domain.limits import Limits
from sendonce.domain.serving import Served
from sendonce.store.ports import Started
from sendonce.store.postgres.orchestrating import Orchestrating


class Reconciling(Orchestrating):
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
