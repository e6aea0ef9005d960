"""Tell what was recorded, why each delivery is where it is, and what happens next."""

from dataclasses import dataclass, replace
from datetime import datetime

from sendonce.admin.advice import Advice, Remark
from sendonce.admin.explain.find import find
from sendonce.admin.explain.messages import MESSAGE, message_story
from sendonce.admin.explain.sentences import Story, tell
from sendonce.admin.explain.snapshot import Snapshot
from sendonce.admin.stops import holding
from sendonce.admin.text import dated, one_line
from sendonce.domain.texts import provider_token
from sendonce.errors import NotFound
from sendonce.store.readers import ReadStore
from sendonce.store.records import DeliveryRow, EventRow, Status

TOLD_AT_MOST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStory:
    """An event without its payload, and the stories of its deliveries; `untold` of them are left out. `gone` tells what
    is no longer kept of it, or was not looked at."""

    recorded: str
    gone: tuple[str, ...]
    event: EventRow
    deliveries: tuple[Story, ...]
    untold: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer to `explain`: sentences, what they were made of, and what can be done. Holds no payload.

    `otherwise` is what else the words could mean.
    """

    wanted: str
    notes: tuple[str, ...] = ()
    otherwise: tuple[Advice, ...] = ()
    events: tuple[EventStory, ...] = ()
    messages: tuple[Remark, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it as plain sentences, in order."""
        told = [*self.notes, *(each.sentence for each in self.messages)]
        for each in self.events:
            told += [each.recorded, *each.gone]
            for story in each.deliveries:
                told.append(f"delivery {story.known.delivery.id} goes {story.goes_to}")
                told += [*story.attempts, *story.whereabouts, *story.generations, *story.findings, *story.evidence]
        return tuple(told)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """All that a person can do about it, in the order of the sentences."""
        stories = [story for each in self.events for story in each.deliveries]
        groups = [self.otherwise, *(each.advice for each in self.messages), *(each.advice for each in stories)]
        return tuple(advice for group in groups for advice in group)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantExplanation:
    """The answer to a tenant's `explain`: plain sentences, and what the tenant itself can do."""

    sentences: tuple[str, ...]
    advice: tuple[Advice, ...]


async def explain(store: ReadStore, wanted: str) -> Explanation:
    """Explain an id, key or token, or a message that came in, to an operator; NotFound when nothing has it. Of an
    event, the newest generations are told."""
    if wanted.startswith(MESSAGE):
        message_id = wanted.removeprefix(MESSAGE)
        if told := await message_story(store, message_id):
            return Explanation(wanted=wanted, messages=told)
        raise NotFound(f"no consumer has handled or kept a message {one_line(message_id)!r}")
    try:
        meant = await find(store, wanted)
    except NotFound:
        if told := await message_story(store, wanted):
            return Explanation(wanted=wanted, messages=told)
        raise
    if meant.delivery is not None:
        events = [await _of_delivery(store, meant.delivery)]
    else:
        status, namespace = await store.status(), await store.namespace()
        events = [await _told(store, status, namespace, event) for event in meant.events[:TOLD_AT_MOST]]
    return Explanation(wanted=wanted, notes=meant.notes, otherwise=meant.advice, events=tuple(events))


async def explain_to_tenant(store: ReadStore, delivery: DeliveryRow) -> Explanation:
    """A delivery in sentences for the tenant whose it is: nothing about others, nothing about who runs the service."""
    told = await _of_delivery(store, delivery, to_tenant=True)
    return Explanation(wanted=f"delivery:{delivery.id}", events=(told,))


async def _of_delivery(store: ReadStore, delivery: DeliveryRow, *, to_tenant: bool = False) -> EventStory:
    status, namespace = await store.status(), await store.namespace()
    event = await store.event(delivery.event_id)
    if event is None:
        raise NotFound(f"the event of delivery {delivery.id} is no longer kept")
    known = await _gather(store, status, namespace, delivery)
    return _event_story(status.now, event, [tell(known.for_tenant() if to_tenant else known)])


async def _told(store: ReadStore, status: Status, namespace: str, event: EventRow) -> EventStory:
    deliveries = await store.deliveries_of(event.id)
    newest = {each.destination: each for each in sorted(deliveries, key=lambda each: each.generation)}
    chosen = sorted(newest.values(), key=lambda each: each.id)
    stories = [tell(await _gather(store, status, namespace, delivery)) for delivery in chosen[:TOLD_AT_MOST]]
    story = _event_story(status.now, event, stories, untold=len(chosen) - len(stories))
    if deliveries.is_end:
        return story
    return replace(story, gone=(*story.gone, f"only the newest {len(deliveries):,} of its deliveries were looked at"))


async def _gather(store: ReadStore, status: Status, namespace: str, delivery: DeliveryRow) -> Snapshot:
    subscription = None
    if delivery.subscription_id is not None:
        subscription = await store.subscription(delivery.subscription_id)
    address = subscription.destination if subscription else delivery.destination
    return Snapshot(
        now=status.now,
        delivery=delivery,
        token=provider_token(
            namespace, delivery.tenant, delivery.type, delivery.key, delivery.destination, delivery.corrections
        ),
        address=address,
        attempts=tuple(await store.attempts_of(delivery.id)),
        lease=await store.lease_of(delivery.id),
        dead_letter=await store.dead_letter_of(delivery.id),
        subscription=subscription,
        stop=None if delivery.status.is_final else holding(status.stops, delivery, address),
        room=next((each for each in status.rooms if each.name == delivery.parked_on), None),
        findings=tuple(await store.findings_of(delivery.id)),
        evidence=tuple(await store.evidence_of(delivery.id)),
        corrections=tuple(await store.corrections_of(delivery.id)),
        generations=tuple(await store.generations_of(delivery.id)),
        has_workers=bool(status.workers),
    )


def _event_story(now: datetime, event: EventRow, stories: list[Story], untold: int = 0) -> EventStory:
    about = f" about {one_line(event.subject)}" if event.subject else ""
    version = f", version {event.version}" if event.version is not None else ""
    tenant = f" for tenant {one_line(event.tenant)}" if event.tenant else ""
    recorded = (
        f"event {event.id}: {event.type} with the key {one_line(event.key, 500)}{about}{version}{tenant}, "
        f"recorded {dated(event.created_at, now)}"
    )
    blank = replace(event, headers=None)
    gone = tuple(_gone(now, event))
    return EventStory(recorded=recorded, gone=gone, event=blank, deliveries=tuple(stories), untold=untold)


def _gone(now: datetime, event: EventRow) -> list[str]:
    told = []
    if event.content_gone_at is not None:
        told.append(f"its content was removed by retention or an erasure on {dated(event.content_gone_at, now)}")
    if event.history_gone_at is not None:
        told.append(f"its deliveries were removed by retention on {dated(event.history_gone_at, now)}")
    return told
