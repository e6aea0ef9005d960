"""Which policy holds for a claim: the default, the channel's settings, the subscription's settings, in this order."""

from collections.abc import Mapping
from datetime import timedelta

from sendonce.domain.attempts import Claim
from sendonce.domain.decide import doubt_wait
from sendonce.domain.outcomes import LEASE_EXPIRED
from sendonce.domain.policies import DEFAULT_POLICY, Policy, override, parse_policy
from sendonce.domain.serving import Serving
from sendonce.errors import ConfigError


class Policies:
    """Resolved once per channel and subscription setting, then looked up."""

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
