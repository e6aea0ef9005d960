"""What this worker serves among all others: read from the database every few seconds, before it claims."""

import time

from sendonce.channels.registry import Channels
from sendonce.domain.serving import Served
from sendonce.store.ports import LeaseStore

LOOK_SECONDS = 2.0
# A live worker that serves it comes by within this time, or else it is busy.
SPARE_SECONDS = 1.0


class Fleet:
    """`spare`: how long what is due is left to a live worker that serves it, in seconds."""

    def __init__(self, store: LeaseStore, channels: Channels, worker_id: int, *, spare: float = SPARE_SECONDS) -> None:
        self._store = store
        self._channels = channels
        self._worker_id = worker_id
        self._spare = spare
        self._served: Served | None = None
        self._look_at = 0.0

    async def served(self) -> Served:
        """What it serves now, and what only others do."""
        now = time.monotonic()
        if self._served is None or now >= self._look_at:
            elsewhere = await self._store.served(self._worker_id)
            self._served = Served(self._channels.names, elsewhere, spare=self._spare)
            self._look_at = now + LOOK_SECONDS
        return self._served
