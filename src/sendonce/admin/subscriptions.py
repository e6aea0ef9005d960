"""Subscriptions and their secrets: added, changed, tested, paused, removed, rotated and encrypted anew."""

import json
import re
import secrets as dice
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from sendonce.domain.destinations import BROKERS, normalise, normalise_ask, scheme_of
from sendonce.domain.durations import parse_rate
from sendonce.domain.events import LONGEST_TENANT, check_pattern, new_event
from sendonce.domain.headers import is_ours
from sendonce.domain.policies import DEFAULT_POLICY, parse_policy
from sendonce.domain.texts import MESSAGE_LENGTH
from sendonce.errors import ConfigError, NotAllowed, NotFound
from sendonce.sealing import VARIABLE, SecretBox, Use
from sendonce.signing import key_of, new_secret
from sendonce.store.ports import SealStore, Store
from sendonce.store.readers import ReadStore
from sendonce.store.records import ROOMS_SHOWN, DeliveryRow, KeptSecret, SubscriptionRow
from sendonce.store.subscriptions import Sealing

ACTIVE, PAUSED, REMOVED = "active", "paused", "removed"
# What is sent there is signed unless somebody says no.
SIGNED = ("http", "https")
# The rate that stands for no limit.
NO_RATE = "none"
# The address that stands for a receiver that cannot be asked.
NO_ASK = "none"
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
    ask: str | None = None


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
    ask: str | None = None,
) -> NewSubscription:
    """Check everything; BadEvent, BadDestination or ConfigError says what to change."""
    if len(tenant.encode("utf-8", "replace")) > LONGEST_TENANT:
        raise ConfigError(f"a tenant's name is at most {LONGEST_TENANT} bytes long")
    if description is not None and len(description) > MESSAGE_LENGTH:
        raise ConfigError(f"a description is at most {MESSAGE_LENGTH} characters long")
    destination = _open_to_tenants(normalise(to))
    return NewSubscription(
        types=check_types(types),
        destination=destination,
        tenant=tenant,
        policy=check_policy(policy) if policy else None,
        rate=None if rate is None else parse_rate(rate),
        description=description or None,
        ask=None if ask is None else check_ask(ask, destination),
    )


def _open_to_tenants(destination: str) -> str:
    """A subscription's destination; ConfigError for our own brokers, to which whoever enters it would write at will."""
    if scheme_of(destination) in BROKERS:
        raise ConfigError(
            f"a subscription cannot go to {scheme_of(destination)}:, a broker of ours; publish to it with to=, or"
            " subscribe an https:// endpoint"
        )
    return destination


def check_types(types: Sequence[str]) -> tuple[str, ...]:
    """The types that a subscription is to get, each once."""
    if not types:
        raise ConfigError("a subscription needs at least one type, a family like order.* or *")
    return tuple(dict.fromkeys(check_pattern(each) for each in types))


def check_policy(policy: str) -> str:
    """A policy in its one spelling; ConfigError says what is wrong with it."""
    parse_policy(DEFAULT_POLICY, policy)
    return json.dumps(json.loads(policy or "{}"), sort_keys=True)


def check_ask(ask: str, destination: str) -> str:
    """Where a receiver is asked, in its one spelling; ConfigError or BadDestination says what is wrong with it."""
    if scheme_of(destination) not in SIGNED:
        raise ConfigError("only what is sent to an http:// or https:// address can be asked about at another one")
    return normalise_ask(ask)


async def add(
    store: Store, wanted: NewSubscription, *, operator: str, secrets: Sealing | None = None
) -> SubscriptionRow:
    """Enter a subscription: every matching event recorded from now on gets a delivery to it.

    `secrets`: see `Secrets.sealed`.
    """
    subscription_id = await store.add_subscription(
        tenant=wanted.tenant,
        types=wanted.types,
        destination=wanted.destination,
        policy=wanted.policy,
        description=wanted.description,
        operator=operator,
        rate=wanted.rate,
        ask=wanted.ask,
        secrets=secrets,
    )
    return await _existing(store, subscription_id)


async def change(
    store: Store, subscription_id: int, state: str, *, operator: str, reason: str | None = None
) -> SubscriptionRow:
    """Pause, resume (active) or remove. Removed is for good."""
    found = await standing(store, subscription_id)
    if found.state != state:
        await store.set_subscription_state(subscription_id, state, operator=operator, reason=reason)
    return await _existing(store, subscription_id)


@dataclass(frozen=True, slots=True)
class Changes:
    """What to change about a subscription, checked; None leaves it as it is."""

    types: tuple[str, ...] | None = None
    policy: str | None = None
    rate: float | None = None
    ask: str | None = None
    drops_policy: bool = False
    drops_rate: bool = False
    drops_ask: bool = False

    @classmethod
    def checked(
        cls,
        types: Sequence[str] | None,
        policy: Mapping[str, object] | None,
        rate: str | None,
        ask: str | None = None,
    ) -> "Changes":
        """Check everything before anything is changed. An empty policy, and "none" as a rate or as the address to ask
        at, drop what is there."""
        return cls(
            types=None if types is None else check_types(types),
            policy=check_policy(json.dumps(dict(policy))) if policy else None,
            rate=None if rate in (None, NO_RATE) else parse_rate(str(rate)),
            drops_policy=policy is not None and not policy,
            drops_rate=rate == NO_RATE,
            ask=None if ask == NO_ASK else ask,
            drops_ask=ask == NO_ASK,
        )


async def apply(
    store: Store, subscription_id: int, changes: Changes, *, operator: str, reason: str | None
) -> SubscriptionRow:
    """Change a subscription; return it as it is then. What was recorded for it before still goes out."""
    found = await standing(store, subscription_id)
    ask = None if changes.ask is None else check_ask(changes.ask, found.destination)
    if changes.types is not None:
        await store.set_subscription_types(subscription_id, changes.types, operator=operator, reason=reason)
    if changes.policy is not None or changes.drops_policy:
        await store.set_subscription_policy(subscription_id, changes.policy, operator=operator, reason=reason)
    if changes.rate is not None or changes.drops_rate:
        await store.set_subscription_rate(subscription_id, changes.rate, operator=operator, reason=reason)
    if ask is not None or changes.drops_ask:
        await store.set_subscription_ask(subscription_id, ask, operator=operator, reason=reason)
    return await _existing(store, subscription_id)


async def send_test(store: Store, subscription_id: int, *, operator: str) -> DeliveryRow:
    """Record an event that says that it is a test, for this subscription alone; its delivery, which is due.

    It goes the whole way: secrets, policy, rate, and a pause holds it back too.
    """
    await standing(store, subscription_id)
    payload = {"test": True, "subscription_id": subscription_id}
    event = new_event(TEST, payload, key=f"test/{subscription_id}/{dice.token_hex(8)}", to=None)
    [delivery_id] = (await store.add_test(subscription_id, event, operator=operator)).ids
    delivery = await store.delivery(delivery_id)
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
    """Those that are paused or disabled while something waits for them; only some, where there are many."""
    found = await store.held_subscriptions(ROOMS_SHOWN)
    rows = {f"{ROOMS['resume']}{each.id}": each for each in found if each.state != ACTIVE}
    waiting = await store.waiting_in(list(rows)) if rows else {}
    return [HeldBack(subscription=rows[room], waiting=waiting[room]) for room in rows if waiting[room]]


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


LONGEST_OVERLAP = timedelta(days=30)
_VISIBLE = re.compile(r"[!-~]{1,8000}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}", re.ASCII)
_VALUE = re.compile(r"[!-~](?:[ -~]{0,7998}[!-~])?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Secrets:
    """What a subscription's requests are to be signed and sent with, as `check_…` has let it pass."""

    signing: str | None = None
    bearer: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    certificate: str | None = None

    def sealed(self, sealer: SecretBox) -> Sealing:
        """By kind, as they are stored for the subscription whose id it is told."""
        texts = {
            "signing": self.signing,
            "bearer": self.bearer,
            "headers": json.dumps(dict(self.headers), sort_keys=True) if self.headers else None,
            "certificate": self.certificate,
        }
        given = {kind: text.encode() for kind, text in texts.items() if text is not None}
        return lambda id: {kind: sealer.seal(text, Use(id, kind)) for kind, text in given.items()}


def new_secrets(
    destination: str,
    *,
    is_signed: bool | None = None,
    secret: str | None = None,
    bearer: str | None = None,
    headers: Mapping[str, str] | None = None,
    certificate: str | None = None,
) -> Secrets:
    """Check what a new subscription is given. Signed is what goes to an HTTP address, unless the caller says otherwise,
    with the secret that is given or a new one."""
    checked = check_headers(f"{name}: {value}" for name, value in (headers or {}).items())
    if is_signed is False and secret is not None:
        raise ConfigError("a subscription that is not signed has no secret; give one of the two")
    if bearer is not None and "authorization" in {name.lower() for name in checked}:
        raise ConfigError("a bearer token and an Authorization header exclude each other")
    if is_signed is None:
        is_signed = secret is not None or scheme_of(destination) in SIGNED
    return Secrets(
        signing=check_signing(secret) if secret is not None else new_secret() if is_signed else None,
        bearer=None if bearer is None else check_bearer(bearer),
        headers=checked,
        certificate=None if certificate is None else check_certificate(certificate),
    )


def check_signing(text: str) -> str:
    """A secret that one brings oneself: `whsec_` and the base64 of 24 to 64 bytes."""
    key_of(text.strip())
    return text.strip()


def check_bearer(text: str) -> str:
    if not _VISIBLE.fullmatch(text.strip()):
        raise ConfigError("a bearer token is one line of visible ASCII characters")
    return text.strip()


def check_headers(lines: Iterable[str]) -> dict[str, str]:
    """Headers as `Name: value`, each once. Never shows a value: it may be an access key."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = (part.strip(" \t") for part in line.partition(":"))
        if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigError("a header is written as Name: value, in visible ASCII characters on one line")
        if is_ours(name):  # better said now than missed later: a sender would leave it out
            raise ConfigError(f"the header {name} is set by sendonce; leave it out")
        if name.lower() in {each.lower() for each in headers}:
            raise ConfigError(f"the header {name} is given twice")
        headers[name] = value
    return headers


def check_certificate(pem: str) -> str:
    """A client certificate (chain) and its private key in one PEM text, tried as a sender uses it."""
    from sendonce.channels.http.certificates import context_of

    context_of(pem)
    return pem


async def rotate(
    store: Store,
    subscription_id: int,
    secret: str | None,
    *,
    overlap: timedelta,
    sealer: SecretBox,
    operator: str,
    reason: str | None = None,
) -> tuple[str, bool]:
    """Sign with this secret (None: a new one) too from now on, and with it alone after `overlap`.

    Return the secret, and whether there was one before.
    """
    if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        raise ConfigError(f"an overlap is between zero and {LONGEST_OVERLAP.days} days long")
    await standing(store, subscription_id)
    signing = new_secret() if secret is None else check_signing(secret)
    is_replacement = any(each.kind == "signing" for each in await store.kept_secrets(subscription_id))
    stored = sealer.seal(signing.encode(), Use(subscription_id, "signing"))
    await store.rotate_secret(subscription_id, stored, overlap=overlap, operator=operator, reason=reason)
    return signing, is_replacement


async def reseal(store: SealStore, sealer: SecretBox, *, operator: str) -> int:
    """Encrypt every stored secret with the first key, for what it is of alone, also those that were plain or opened for
    any use until now; how many there were."""
    if not sealer.has_keys:
        raise ConfigError(f"set {VARIABLE} first; a key is made by: sendonce new-key")

    def seal(subscription_id: int, kind: str, stored: bytes) -> bytes:
        use = Use(subscription_id, kind)
        return sealer.seal(sealer.open(stored, use), use)

    acted = await store.reseal(seal, operator=operator)
    return len(acted.ids)
