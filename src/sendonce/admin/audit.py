"""Check what is marked sent against what the other side has: findings, and on demand the next generation."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from sendonce.channels.protocol import NONE, Credentials, LookingUp, Message, look_up, memory_of
from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import CannotTell, Deferred, Found, LookUp, NoAnswer, NotThere
from sendonce.domain.policies import Policy
from sendonce.errors import NotAllowed
from sendonce.store.ports import Store
from sendonce.store.records import DeliveryRow, SubscriptionRow

STEP = 200
KEPT = 1000
CONCURRENCY = 50
# A delivery may have been made long before it got through.
LONGEST_WAY = timedelta(days=7)
# What is nearly forgotten may be forgotten when it is asked about, or asked about once more.
SAFE_PART_OF_MEMORY = 0.9


class Check(StrEnum):
    """What checking one delivery came to. The first three are findings."""

    NO_EVIDENCE = "no_evidence"
    OTHER_ID = "other_id"
    NO_PROVIDER_ID = "no_provider_id"
    CONFIRMED = "confirmed"
    NO_ANSWER = "no_answer"
    CANNOT_BE_ASKED = "cannot_be_asked"
    TOO_OLD = "too_old"
    TOO_FRESH = "too_fresh"


FINDINGS = (Check.NO_EVIDENCE, Check.OTHER_ID, Check.NO_PROVIDER_ID)
_DETAILS = {
    Check.NO_EVIDENCE: "it is marked sent, but the other side has no record of it",
    Check.OTHER_ID: "the other side has it under another id",
    Check.NO_PROVIDER_ID: "it is marked sent without the other side's id for it",
}


class Checked(NamedTuple):
    """One delivery and what was found; `notification_id` is the other side's answer. `can_be_repaired`: it is surely
    not there, and nobody has attested it."""

    delivery: DeliveryRow
    check: Check
    notification_id: str | None = None
    is_new: bool = False
    can_be_repaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What an audit asks through: the channels, and what a worker would use with them."""

    channels: Channels
    namespace: str
    policy_at: Callable[[str, str | None, bool], Policy]
    credentials_of: Callable[[int], Awaitable[Credentials | Deferred]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """Who has what is missing sent again, why, and how many at most."""

    operator: str
    reason: str
    cap: int


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """The audit so far. `found` holds the findings, in the order of the deliveries, and no more than KEPT."""

    looked_at: int = 0
    counts: Counter[Check] = field(default_factory=Counter)
    found: list[Checked] = field(default_factory=list)
    repairable: int = 0
    opened: list[int] = field(default_factory=list)

    @property
    def findings(self) -> int:
        return sum(self.counts[each] for each in FINDINGS)

    @property
    def unanswered(self) -> int:
        return self.counts[Check.NO_ANSWER]


async def audit(
    store: Store, means: Means, *, since: datetime, destination: str | None = None, repair: Repair | None = None
) -> AsyncIterator[AuditReport]:
    """Walk what was completed since then, in bounded steps; the report so far after each of them.

    Every step is whole: before the next begins, its findings are written, and with `repair` generations opened.
    """
    report = AuditReport()
    after: int | None = await store.first_delivery_since(since - LONGEST_WAY) - 1
    checking = _Checking(store, means, (await store.status()).now)
    while after is not None:
        rows, after = await store.completed_after(after, since=since, limit=STEP)
        wanted = [each for each in rows if destination in (None, each.destination)]
        checked = await checking.all(wanted)
        report.looked_at += len(wanted)
        await _note(store, report, checked)
        if repair is not None:
            await _repair(store, report, [each.delivery.id for each in checked if each.can_be_repaired], repair)
        yield report


async def _note(store: Store, report: AuditReport, checked: Sequence[Checked]) -> None:
    for each in checked:
        report.counts[each.check] += 1
        report.repairable += each.can_be_repaired
        if each.check not in FINDINGS:
            continue
        is_new = await store.add_finding(
            each.delivery.id,
            kind=each.check.value,
            details=_DETAILS[each.check],
            notification_id=each.notification_id,
        )
        if len(report.found) < KEPT:
            report.found.append(each._replace(is_new=is_new))


async def _repair(store: Store, report: AuditReport, ids: Sequence[int], repair: Repair) -> None:
    """Open the next generations; each is in doubt, so that it is looked up once more before it is sent."""
    for delivery_id in ids[: max(repair.cap - len(report.opened), 0)]:
        try:
            acted = await store.open_generations(
                [delivery_id], kind="repair", operator=repair.operator, reason=repair.reason
            )
        except NotAllowed:
            continue  # somebody else has opened it
        report.opened += acted.ids


class _Checking:
    """Asks about deliveries, so many at a time; remembers subscriptions."""

    def __init__(self, store: Store, means: Means, now: datetime) -> None:
        self._store = store
        self._means = means
        self._now = now
        self._begun = time.monotonic()
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._subscriptions: dict[int, SubscriptionRow | None] = {}

    async def all(self, deliveries: Sequence[DeliveryRow]) -> list[Checked]:
        return await asyncio.gather(*[self._one(each) for each in deliveries])

    async def _one(self, delivery: DeliveryRow) -> Checked:
        async with self._slots:
            subscription = await self._subscription(delivery.subscription_id)
            address = subscription.destination if subscription else delivery.destination
            is_subscription = delivery.subscription_id is not None
            ask = subscription.ask if subscription else None
            channel = self._means.channels.find_asking(address, is_subscription=is_subscription, ask=ask)
            if channel is None:
                return Checked(delivery, Check.CANNOT_BE_ASKED)
            policy = self._means.policy_at(address, subscription.policy if subscription else None, is_subscription)
            now = self._now + timedelta(seconds=time.monotonic() - self._begun)
            age = now - (delivery.notified_at or delivery.updated_at)
            memory = memory_of(channel)
            if age < policy.doubt_wait:
                return Checked(delivery, Check.TOO_FRESH)
            if memory is not None and age > memory * SAFE_PART_OF_MEMORY:
                return Checked(delivery, Check.TOO_OLD if delivery.notification_id else Check.NO_PROVIDER_ID)
            return _judged(delivery, await self._answer(delivery, address, channel, policy, ask), has_ids=ask is None)

    async def _answer(
        self, delivery: DeliveryRow, address: str, channel: LookingUp, policy: Policy, ask: str | None
    ) -> LookUp:
        credentials: Credentials | Deferred = NONE
        if delivery.subscription_id is not None and self._means.credentials_of is not None:
            credentials = await self._means.credentials_of(delivery.subscription_id)
        if isinstance(credentials, Deferred):
            return NoAnswer(credentials.code, credentials.message)
        message = await self._message(delivery, address, credentials, ask)
        return await look_up(channel, message, policy.timeout.total_seconds())

    async def _message(self, delivery: DeliveryRow, address: str, credentials: Credentials, ask: str | None) -> Message:
        """Return what was sent, without its content: that is not needed to ask, and may be gone."""
        event = await self._store.event(delivery.event_id)
        return Message(
            address=address,
            body="",
            type=delivery.type,
            key=delivery.key,
            recorded_at=event.created_at if event else delivery.created_at,
            tenant=delivery.tenant,
            subject=event.subject if event else None,
            version=event.version if event else None,
            attempt=delivery.attempt_count,
            delivery_id=delivery.id,
            event_id=delivery.event_id,
            is_for_subscription=delivery.subscription_id is not None,
            notification_id=delivery.notification_id,
            credentials=credentials,
            namespace=self._means.namespace,
            destination=delivery.destination,
            corrections=delivery.corrections,
            ask=ask,
        )

    async def _subscription(self, subscription_id: int | None) -> SubscriptionRow | None:
        if subscription_id is None:
            return None
        if subscription_id not in self._subscriptions:
            self._subscriptions[subscription_id] = await self._store.subscription(subscription_id)
        return self._subscriptions[subscription_id]


def _judged(delivery: DeliveryRow, answer: LookUp, *, has_ids: bool) -> Checked:
    """What an answer means. Where a subscription says who can be asked, messages are known by our token alone."""
    match answer:
        case NotThere():
            # One that a person has attested had no attempts: their word is not overruled by a machine.
            return Checked(delivery, Check.NO_EVIDENCE, can_be_repaired=delivery.attempt_count > 0)
        case Found(notification_id):
            if delivery.notification_id is None and has_ids:
                return Checked(delivery, Check.NO_PROVIDER_ID, notification_id)
            if notification_id not in (None, delivery.notification_id) and has_ids:
                return Checked(delivery, Check.OTHER_ID, notification_id)
            return Checked(delivery, Check.CONFIRMED)
        case CannotTell():
            can_be_without = delivery.notification_id is not None or not has_ids
            return Checked(delivery, Check.CANNOT_BE_ASKED if can_be_without else Check.NO_PROVIDER_ID)
    return Checked(delivery, Check.NO_ANSWER)
