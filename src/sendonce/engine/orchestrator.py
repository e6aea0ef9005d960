"""The orchestrator: start and settle. It chooses states through decide() alone, and never sends."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from sendonce.channels.registry import Channels
from sendonce.domain.attempts import NO_FENCE, Fence, Refusal, Report, Result, Verdict, Witness, resolve
from sendonce.domain.decide import complete
from sendonce.domain.limits import NO_LIMITS, Limits
from sendonce.domain.outcomes import Delivered
from sendonce.domain.serving import Served, shown
from sendonce.engine.policies import Policies
from sendonce.store.ports import OrchestratorStore, Started
from sendonce.store.records import LossRow

MARK_STEP = 10_000


class Orchestrator:
    def __init__(self, store: OrchestratorStore, policies: Policies, channels: Channels) -> None:
        self._store = store
        self._policies = policies
        self._channels = channels

    async def start(
        self, worker_id: int, limit: int, hold: timedelta, limits: Limits = NO_LIMITS, fence: Fence = NO_FENCE
    ) -> Started:
        """Lease attempts for due deliveries."""
        return await self._store.start(worker_id, limit, hold, limits, fence)

    async def start_waiting(
        self,
        worker_id: int,
        quotas: Mapping[str, int],
        hold: timedelta,
        limits: Limits,
        fence: Fence = NO_FENCE,
        *,
        probes: Mapping[str, float],
    ) -> Started:
        """Lease attempts for deliveries that wait in rooms."""
        return await self._store.start_waiting(worker_id, quotas, hold, limits, fence, probes=probes)

    async def start_doubtful(
        self, worker_id: int, limit: int, hold: timedelta, *, after: int, served: Served, fence: Fence = NO_FENCE
    ) -> Started:
        """Lease attempts for deliveries in doubt, to ask about them now."""
        return await self._store.start_doubtful(worker_id, limit, hold, after=after, served=served, fence=fence)

    async def park_unserved(self, room: str, served: Served) -> int:
        """Let what no live worker serves wait in a room of its channel."""
        return await self._store.park_unserved(room, served)

    async def give_up_unserved(self, name: str, after: int, limit: int) -> tuple[int, int | None]:
        """Give up what came to its deadline while no live worker served its channel; a bounded step."""
        message = f"its deadline has passed, and no worker served {shown(name)}"
        return await self._store.give_up_unserved(f"channel:{name}", after, limit, message=message)

    async def refusal(self, fence: Fence) -> Refusal | None:
        """Why a worker with this fence may claim nothing now."""
        return await self._store.refusal(fence)

    async def notice_loss(self, witness: Witness, *, noticed_by: str) -> LossRow | None:
        """This database has lost commits: what it has is to be asked about before it is sent."""
        return await self._store.notice_loss(witness, wait=self._policies.longest_doubt_wait, noticed_by=noticed_by)

    async def mark_loss(self) -> bool:
        """Put the next deliveries of a loss in doubt; False when there are no more."""
        return await self._store.mark_loss(MARK_STEP) is not None

    def decide(self, reports: Sequence[Report]) -> list[Result]:
        """Reports with their decisions. What was delivered is complete whatever else is known: no need to look."""
        return [
            Result(report, complete()) if type(report.outcome) is Delivered else self._resolve(report)
            for report in reports
        ]

    async def settle(self, results: Sequence[Result]) -> list[Verdict]:
        """Write decided results. Safe to repeat when the answer was lost."""
        return await self._store.settle(results)

    def _resolve(self, report: Report) -> Result:
        claim = report.claim
        can_look_up = self._channels.can_look_up(claim.address, is_subscription=claim.subscription_id is not None)
        return resolve(report, self._policies.of(claim), can_look_up=can_look_up)
