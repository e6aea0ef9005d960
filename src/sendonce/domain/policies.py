"""How often and how long to try: a policy, every number of it checked when it is read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum

from sendonce.domain.durations import parse_duration
from sendonce.errors import ConfigError


class IfUnsure(StrEnum):
    """What to do with a message that may have been sent, where the receiver cannot be asked."""

    RESEND = "resend"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits of one delivery. The defaults outlast an outage of more than 24 hours."""

    max_attempts: int = 36
    first_delay: timedelta = timedelta(seconds=10)
    longest_delay: timedelta = timedelta(hours=1)
    jitter: float = 0.1
    timeout: timedelta = timedelta(seconds=10)
    doubt_wait: timedelta = timedelta(seconds=30)
    retry_after_cap: timedelta = timedelta(hours=1)
    if_unsure: IfUnsure = IfUnsure.RESEND

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= 10_000:
            raise ConfigError(f"max_attempts must be between 1 and 10000, not {self.max_attempts}")
        if not timedelta(0) < self.first_delay <= self.longest_delay <= timedelta(days=30):
            raise ConfigError("first_delay must be above zero, at most longest_delay, and that at most 30 days")
        if not 0 <= self.jitter <= 1:
            raise ConfigError(f"jitter must be between 0 and 1, not {self.jitter}")
        if not timedelta(0) < self.timeout <= timedelta(hours=1):
            raise ConfigError("timeout must be above zero and at most one hour")
        for name in ("doubt_wait", "retry_after_cap"):
            if not timedelta(0) <= getattr(self, name) <= timedelta(days=30):
                raise ConfigError(f"{name} must be between zero and 30 days")


DEFAULT_POLICY = Policy()
_DURATIONS = {"first_delay", "longest_delay", "timeout", "doubt_wait", "retry_after_cap"}


def override(policy: Policy, settings: Mapping[str, object]) -> Policy:
    """The policy with these settings in place of its own. Durations may be texts ("30s", "2h") or seconds."""
    known = {field.name for field in fields(Policy)}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise ConfigError(f"unknown policy setting {unknown[0]!r}; known are: {', '.join(sorted(known))}")
    return replace(policy, **{name: _read(name, value) for name, value in settings.items()})  # type: ignore[arg-type]


def parse_policy(policy: Policy, text: str | None) -> Policy:
    """The policy with the settings of a JSON object in place of its own; none given, none changed."""
    if not text:
        return policy
    try:
        settings = json.loads(text)
    except ValueError:
        raise ConfigError("a policy must be a JSON object") from None
    if not isinstance(settings, dict):
        raise ConfigError("a policy must be a JSON object")
    return override(policy, settings)


def next_delay(policy: Policy, attempt: int, spread: float) -> timedelta:
    """min(longest_delay, first_delay · 2^(attempt − 1)), shortened by up to `jitter`; `spread` is in [0, 1)."""
    doubled = 2 ** min(max(attempt, 1) - 1, 32)
    # Compared before it is multiplied: days doubled often enough are more than a timedelta can hold.
    is_capped = doubled >= policy.longest_delay / policy.first_delay
    delay = policy.longest_delay if is_capped else policy.first_delay * doubled
    return delay * (1 - policy.jitter * spread)


def span(policy: Policy) -> timedelta:
    """For how long a policy tries: the sum of its delays, without jitter."""
    total = timedelta(0)
    for attempt in range(1, policy.max_attempts + 1):
        delay = next_delay(policy, attempt, 0.0)
        if delay == policy.longest_delay:
            return total + delay * (policy.max_attempts - attempt + 1)
        total += delay
    return total


def spread_of(delivery_id: int, attempt: int) -> float:
    """A number in [0, 1) that is the same every time for one attempt of one delivery, and even over many."""
    mixed = (delivery_id * 0x9E3779B97F4A7C15 + attempt * 0xD1B54A32D192ED03) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return ((mixed ^ (mixed >> 31)) >> 11) / 2**53


def _read(name: str, value: object) -> object:
    try:
        if name in _DURATIONS:
            return parse_duration(value)
        if name == "if_unsure":
            return IfUnsure(str(value))
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError("not a number")
        if name == "max_attempts":
            if value != int(value):
                raise ValueError("not a whole number")
            return int(value)
        return float(value)
    except (ValueError, TypeError, OverflowError):
        raise ConfigError(f"{name} cannot be {value!r}: {_HINTS.get(name, _DURATION_HINT)}") from None


_DURATION_HINT = 'say a number of seconds or a text like "30s", "5m", "2h"'
_HINTS = {
    "max_attempts": "say a whole number, at least 1",
    "jitter": "say a number between 0 and 1",
    "if_unsure": "say resend or hold",
}
