"""Standing orders: add, look at, pause, resume and remove subscriptions, and set their rates."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sendonce.domain.destinations import normalise
from sendonce.domain.events import LONGEST_TENANT, check_pattern
from sendonce.domain.policies import DEFAULT_POLICY, parse_policy
from sendonce.domain.rates import parse_rate
from sendonce.domain.texts import MESSAGE_LENGTH
from sendonce.errors import ConfigError, NotAllowed, NotFound
from sendonce.operations.desk import Desk
from sendonce.stores.ports import ReadStore
from sendonce.stores.records import ROOMS_SHOWN, KeptSecret, SubscriptionRow

ACTIVE, PAUSED, REMOVED = "active", "paused", "removed"
# What its deliveries can wait for, and the beginnings of the rooms they wait in.
ROOMS = {"resume": "subscription:", "rate": "rate:", "destination": "destination:subscription:"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSubscription:
    """A standing order, checked and in its one spelling."""

    types: tuple[str, ...]
    destination: str
    tenant: str = ""
    policy: str | None = None
    rate: float | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A subscription, which secrets it has, and how many of its deliveries wait for what."""

    subscription: SubscriptionRow
    secrets: tuple[KeptSecret, ...]
    waiting: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """A subscription that is not active, and how many deliveries wait for that to change."""

    subscription: SubscriptionRow
    waiting: int


def new_subscription(
    *,
    types: Sequence[str],
    to: str,
    tenant: str = "",
    policy: str | None = None,
    rate: str | None = None,
    description: str | None = None,
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
        rate=None if rate is None else parse_rate(rate),
        description=description or None,
    )


async def add(
    desk: Desk, wanted: NewSubscription, *, operator: str, secrets: Mapping[str, bytes] | None = None
) -> SubscriptionRow:
    """Enter a subscription: every matching event recorded from now on gets a delivery to it.

    `secrets` are as they are stored: see `Secrets.sealed`.
    """
    subscription_id = await desk.add_subscription(
        tenant=wanted.tenant,
        types=wanted.types,
        destination=wanted.destination,
        policy=wanted.policy,
        description=wanted.description,
        operator=operator,
        rate=wanted.rate,
        secrets=secrets,
    )
    return await _existing(desk, subscription_id)


async def change(
    desk: Desk, subscription_id: int, state: str, *, operator: str, reason: str | None = None
) -> SubscriptionRow:
    """Pause, resume (active) or remove. Removed is for good."""
    found = await standing(desk, subscription_id)
    if found.state != state:
        await desk.set_subscription_state(subscription_id, state, operator=operator, reason=reason)
    return await _existing(desk, subscription_id)


async def set_rate(
    desk: Desk, subscription_id: int, rate: float | None, *, operator: str, reason: str | None = None
) -> SubscriptionRow:
    """Send at most so many a second from now on; None: as many as there are."""
    await standing(desk, subscription_id)
    await desk.set_subscription_rate(subscription_id, rate, operator=operator, reason=reason)
    return await _existing(desk, subscription_id)


async def look(store: ReadStore, subscription_id: int) -> Standing:
    """Everything about a subscription but its secrets."""
    found = await _existing(store, subscription_id)
    rooms = [f"{ROOMS[reason]}{subscription_id}" for reason in ROOMS]
    waiting = await store.waiting_in(rooms)
    return Standing(
        subscription=found,
        secrets=tuple(await store.kept_secrets(subscription_id)),
        waiting={reason: waiting[room] for reason, room in zip(ROOMS, rooms, strict=True) if waiting[room]},
    )


async def held_back(store: ReadStore) -> list[HeldBack]:
    """Those that are paused or disabled while something waits for them; only the first ones, where there are many."""
    rows = {f"{ROOMS['resume']}{each.id}": each for each in await store.subscriptions(None) if each.state != ACTIVE}
    waiting = await store.waiting_in(list(rows)) if rows else {}
    return [HeldBack(subscription=rows[room], waiting=waiting[room]) for room in rows if waiting[room]][:ROOMS_SHOWN]


async def standing(store: ReadStore, subscription_id: int) -> SubscriptionRow:
    """The subscription; NotFound or NotAllowed when nothing can be changed about it any more."""
    found = await _existing(store, subscription_id)
    if found.state == REMOVED:
        raise NotAllowed(f"subscription {subscription_id} was removed, which is for good; add a new one")
    return found


async def _existing(store: ReadStore, subscription_id: int) -> SubscriptionRow:
    found = await store.subscription(subscription_id)
    if found is None:
        raise NotFound(f"there is no subscription {subscription_id}")
    return found
