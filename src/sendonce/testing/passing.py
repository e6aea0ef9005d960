"""One pass of the engine: what is due now is claimed, sent and settled, and what the pass makes due as well."""

from collections.abc import Sequence
from datetime import datetime

from sendonce import __version__
from sendonce.channels.registry import Channels
from sendonce.domain.policies import Policy
from sendonce.engine.build import build_engine
from sendonce.engine.config import WorkerConfig
from sendonce.engine.lease_keeper import LeaseKeeper
from sendonce.engine.orchestrator import Policies
from sendonce.engine.worker import Worker
from sendonce.observability import logs
from sendonce.testing.connections import Opened

CONFIG = WorkerConfig(until_idle=True, once=True)


class Pass:
    """A worker and its lease keeper, on one connection and in one event loop."""

    def __init__(self, opened: Opened, channels: Channels, policy: Policy) -> None:
        self._opened = opened
        self._channels = channels
        self._policies = Policies(policy, channels.settings(), channels.serving)
        self._worker: Worker | None = None

    def stop(self) -> None:
        """Claim no more."""
        if self._worker is not None:
            self._worker.stop()

    async def run(self, ended: Sequence[datetime]) -> None:
        """Work until nothing is left to do now. Leases that `ended` in between are closed as of then."""
        store = self._opened.store
        worker_id = await store.register("test", __version__, CONFIG.concurrency, serves=self._channels.names)
        engine = build_engine(
            store, self._channels, self._policies, CONFIG,
            worker_id=worker_id, namespace=await store.namespace(), emit=logs.write,
        )  # fmt: skip
        keeper, self._worker = engine.keeper_on(store), engine.worker
        await self._close_leases(keeper, ended)
        await self._worker.run()
        await engine.gone.apply()
        await keeper.leave()

    async def _close_leases(self, keeper: LeaseKeeper, ended: Sequence[datetime]) -> None:
        """Other workers would have looked all the time while the clock was moved."""
        for moment in (*ended, self._opened.now):
            self._opened.now = moment
            await keeper.tick()
