"""Standing orders: add, look at, change, try, pause, resume and remove subscriptions."""

import json
import secrets as dice
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sendonce.admin.desk import Desk
from sendonce.domain.destinations import normalise
from sendonce.domain.events import LONGEST_TENANT, check_pattern, new_event
from sendonce.domain.policies import DEFAULT_POLICY, parse_policy
from sendonce.domain.rates import parse_rate
from sendonce.domain.texts import MESSAGE_LENGTH
from sendonce.errors import ConfigError, NotAllowed, NotFound
from sendonce.store.readers import ReadStore
from sendonce.store.records import ROOMS_SHOWN, DeliveryRow, KeptSecret, SubscriptionRow
from sendonce.store.subscriptions import Sealing

ACTIVE, PAUSED, REMOVED = "active", "paused", "removed"
# The type of an event that is only a test.
TEST = "sendonce.test"
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
    if len(tenant.encode("utf-8", "replace")) > LONGEST_TENANT:
        raise ConfigError(f"a tenant's name is at most {LONGEST_TENANT} bytes long")
    if description is not None and len(description) > MESSAGE_LENGTH:
        raise ConfigError(f"a description is at most {MESSAGE_LENGTH} characters long")
    return NewSubscription(
        types=check_types(types),
        destination=normalise(to),
        tenant=tenant,
        policy=check_policy(policy) if policy else None,
        rate=None if rate is None else parse_rate(rate),
        description=description or None,
    )


def check_types(types: Sequence[str]) -> tuple[str, ...]:
    """The types that a subscription is to get, each once."""
    if not types:
        raise ConfigError("a subscription needs at least one type, a family like order.* or *")
    return tuple(dict.fromkeys(check_pattern(each) for each in types))


def check_policy(policy: str) -> str:
    """A policy in its one spelling; ConfigError says what is wrong with it."""
    parse_policy(DEFAULT_POLICY, policy)
    return json.dumps(json.loads(policy or "{}"), sort_keys=True)


async def add(desk: Desk, wanted: NewSubscription, *, operator: str, secrets: Sealing | None = None) -> SubscriptionRow:
    """Enter a subscription: every matching event recorded from now on gets a delivery to it.

    `secrets`: see `Secrets.sealed`.
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


async def set_policy(
    desk: Desk, subscription_id: int, policy: str | None, *, operator: str, reason: str | None = None
) -> SubscriptionRow:
    """Its own limits from now on, for what waits too (see `check_policy`); None: those of its channel."""
    await standing(desk, subscription_id)
    await desk.set_subscription_policy(subscription_id, policy, operator=operator, reason=reason)
    return await _existing(desk, subscription_id)


async def set_types(
    desk: Desk, subscription_id: int, types: Sequence[str], *, operator: str, reason: str | None = None
) -> SubscriptionRow:
    """What it gets from now on (see `check_types`); what was recorded for it before still goes out."""
    await standing(desk, subscription_id)
    await desk.set_subscription_types(subscription_id, types, operator=operator, reason=reason)
    return await _existing(desk, subscription_id)


async def send_test(desk: Desk, subscription_id: int, *, operator: str) -> DeliveryRow:
    """Record an event that says that it is a test, for this subscription alone; its delivery, which is due.

    It goes the whole way: secrets, policy, rate, and a pause holds it back too.
    """
    await standing(desk, subscription_id)
    payload = {"test": True, "subscription_id": subscription_id}
    event = new_event(TEST, payload, key=f"test/{subscription_id}/{dice.token_hex(8)}")
    [delivery_id] = (await desk.add_test(subscription_id, event, operator=operator)).ids
    delivery = await desk.delivery(delivery_id)
    if delivery is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    return delivery


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
