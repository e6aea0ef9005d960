"""The orchestrator: start and settle. It chooses states through decide() and a policy alone, and never sends."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from sendonce.channels.registry import Channels
from sendonce.domain.attempts import NO_FENCE, Claim, Fence, Refusal, Report, Result, Verdict, Witness, resolve
from sendonce.domain.decide import complete, doubt_wait
from sendonce.domain.limits import NO_LIMITS, Limits
from sendonce.domain.outcomes import LEASE_EXPIRED, Delivered
from sendonce.domain.policies import DEFAULT_POLICY, Policy, override, parse_policy
from sendonce.domain.serving import Served, Serving, shown
from sendonce.errors import ConfigError
from sendonce.store.ports import OrchestratorStore, Started
from sendonce.store.records import LossRow


class Policies:
    """The policies of channels and subscriptions, each resolved once."""

    def __init__(
        self,
        default: Policy = DEFAULT_POLICY,
        by_channel: Mapping[str, Mapping[str, object]] | None = None,
        serving: Serving | None = None,
    ) -> None:
        self._default = default
        self._serving = Serving(by_channel or ()) if serving is None else serving
        self._by_channel = {scheme: override(default, settings) for scheme, settings in (by_channel or {}).items()}
        self._resolved: dict[tuple[str, str | None], Policy] = {}

    @property
    def longest_doubt_wait(self) -> timedelta:
        """How long any of these leaves alone what may have been sent, and be on its way still."""
        policies = (self._default, *self._by_channel.values())
        return max(doubt_wait(each, LEASE_EXPIRED.code, was_in_doubt=True) for each in policies)

    def of(self, claim: Claim) -> Policy:
        """Return the policy of a claim."""
        return self.at(claim.address, claim.policy, claim.subscription_id is not None)

    def at(self, address: str, settings: str | None, is_subscription: bool) -> Policy:
        """Return the policy of what goes to this address, overridden by a subscription's own settings."""
        key = (self._serving.of(address, is_subscription=is_subscription), settings)
        found = self._resolved.get(key)
        if found is None:
            if len(self._resolved) >= 10_000:
                self._resolved.clear()
            found = self._resolved[key] = self._resolve(*key)
        return found

    def _resolve(self, served: str, settings: str | None) -> Policy:
        policy = self._by_channel.get(served, self._default)
        try:
            return parse_policy(policy, settings)
        except ConfigError:
            # Checked when it was entered; if somebody wrote it past that, the channel's policy is still a good one.
            return policy


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
        """Park what no live worker serves, in a room of its channel."""
        return await self._store.park_unserved(room, served)

    async def give_up_unserved(self, name: str, after: int, limit: int) -> tuple[int, int | None]:
        """Give up what has passed its deadline while no live worker served its channel; a bounded step."""
        message = f"its deadline has passed, and no worker served {shown(name)}"
        return await self._store.give_up_unserved(f"channel:{name}", after, limit, message=message)

    async def refusal(self, fence: Fence) -> Refusal | None:
        """Return why a worker with this fence may not claim, or None."""
        return await self._store.refusal(fence)

    async def notice_loss(self, witness: Witness, *, noticed_by: str) -> LossRow | None:
        """Record that this database has lost commits: its deliveries are looked up before they are sent."""
        return await self._store.notice_loss(witness, wait=self._policies.longest_doubt_wait, noticed_by=noticed_by)

    async def mark_loss(self) -> bool:
        """Put the next deliveries of a loss in doubt; False when there are no more."""
        return await self._store.mark_loss(MARK_STEP) is not None

    def decide(self, reports: Sequence[Report]) -> list[Result]:
        """Decide about each report. What was delivered is complete whatever else is known."""
        return [
            Result(report, complete()) if type(report.outcome) is Delivered else self._resolve(report)
            for report in reports
        ]

    async def settle(self, results: Sequence[Result]) -> list[Verdict]:
        """Write decided results. Safe to repeat when the answer was lost."""
        return await self._store.settle(results)

    def _resolve(self, report: Report) -> Result:
        claim = report.claim
        can_look_up = self._channels.can_look_up(
            claim.address, is_subscription=claim.subscription_id is not None, ask=claim.ask
        )
        return resolve(report, self._policies.of(claim), can_look_up=can_look_up)
