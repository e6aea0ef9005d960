"""Standing orders: add, pause, resume and remove subscriptions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sendonce.domain.destinations import normalise
from sendonce.domain.events import LONGEST_TENANT, check_pattern
from sendonce.domain.policies import DEFAULT_POLICY, parse_policy
from sendonce.domain.texts import MESSAGE_LENGTH
from sendonce.errors import ConfigError, NotAllowed, NotFound
from sendonce.operations.desk import Desk
from sendonce.stores.records import SubscriptionRow

ACTIVE, PAUSED, REMOVED = "active", "paused", "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSubscription:
    """A standing order, checked and in its one spelling."""

    types: tuple[str, ...]
    destination: str
    tenant: str = ""
    policy: str | None = None
    description: str | None = None


def new_subscription(
    *, types: Sequence[str], to: str, tenant: str = "", policy: str | None = None, description: str | None = None
) -> NewSubscription:
    """Check everything; BadEvent, BadDestination or ConfigError says what to change."""
    if not types:
        raise ConfigError("a subscription needs at least one type, a family like order.* or *")
    if len(tenant.encode("utf-8", "replace")) > LONGEST_TENANT:
        raise ConfigError(f"a tenant's name is at most {LONGEST_TENANT} bytes long")
    if description is not None and len(description) > MESSAGE_LENGTH:
        raise ConfigError(f"a description is at most {MESSAGE_LENGTH} characters long")
    parse_policy(DEFAULT_POLICY, policy)
    return NewSubscription(
        types=tuple(dict.fromkeys(check_pattern(each) for each in types)),
        destination=normalise(to),
        tenant=tenant,
        policy=json.dumps(json.loads(policy), sort_keys=True) if policy else None,
        description=description or None,
    )


async def add(desk: Desk, wanted: NewSubscription, *, operator: str) -> SubscriptionRow:
    """Enter a subscription: every matching event recorded from now on gets a delivery to it."""
    subscription_id = await desk.add_subscription(
        tenant=wanted.tenant,
        types=wanted.types,
        destination=wanted.destination,
        policy=wanted.policy,
        description=wanted.description,
        operator=operator,
    )
    return await _existing(desk, subscription_id)


async def change(
    desk: Desk, subscription_id: int, state: str, *, operator: str, reason: str | None = None
) -> SubscriptionRow:
    """Pause, resume (active) or remove. Removed is for good."""
    found = await _existing(desk, subscription_id)
    if found.state == REMOVED:
        raise NotAllowed(f"subscription {subscription_id} was removed, which is for good; add a new one")
    if found.state != state:
        await desk.set_subscription_state(subscription_id, state, operator=operator, reason=reason)
    return await _existing(desk, subscription_id)


async def _existing(desk: Desk, subscription_id: int) -> SubscriptionRow:
    found = await desk.subscription(subscription_id)
    if found is None:
        raise NotFound(f"there is no subscription {subscription_id}")
    return found
