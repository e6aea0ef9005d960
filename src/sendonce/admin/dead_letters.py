"""Decide about what was given up, or send it again: requeue, replay, discard, attest and correct."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sendonce.admin.text import stamp
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.destinations import Routed, TypedDestination, normalise, scheme_of
from sendonce.domain.emails import Attachment, Email
from sendonce.domain.events import new_event
from sendonce.errors import BadDestination, BadEvent, NotAllowed, NotFound
from sendonce.store.ports import Store
from sendonce.store.readers import ReadStore
from sendonce.store.records import Acted, DeadLetterRow, DeliveryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """One delivery whose next generation is now on its way. `may_repeat`: it was, or may have been, sent before."""

    old_delivery_id: int
    delivery_id: int
    destination: str
    may_repeat: bool


async def requeue(
    store: Store, dead_letter_ids: Sequence[int], *, operator: str, reason: str, even_if_sent: bool = False
) -> list[Reopened]:
    """Send dead letters again, all or none. What may have been sent already needs `even_if_sent`."""
    letters = [await open_letter(store, each) for each in dict.fromkeys(dead_letter_ids)]
    for letter in letters:
        if letter.in_doubt and not even_if_sent:
            raise NotAllowed(
                f"dead letter {letter.id} may have been sent already: look at it with: sendonce explain "
                f"delivery:{letter.delivery_id}; to send it all the same, add --even-if-sent"
            )
    acted = await store.open_generations(
        [letter.delivery_id for letter in letters], kind="requeue", operator=operator, reason=reason
    )
    return [
        Reopened(
            old_delivery_id=letter.delivery_id,
            delivery_id=new_id,
            destination=letter.destination,
            may_repeat=letter.in_doubt,
        )
        for letter, new_id in zip(letters, acted.ids, strict=True)
    ]


async def replay(
    store: Store, delivery_ids: Sequence[int], *, operator: str, reason: str, even_if_sent: bool = False
) -> list[Reopened]:
    """Open the next generation of finished deliveries, all or none. What was sent needs `even_if_sent`."""
    deliveries = [await _finished(store, each) for each in dict.fromkeys(delivery_ids)]
    sent = [each.status is DeliveryState.COMPLETED or await may_have_been_sent(store, each) for each in deliveries]
    for delivery, was_sent in zip(deliveries, sent, strict=True):
        if was_sent and not even_if_sent:
            known = "was sent" if delivery.status is DeliveryState.COMPLETED else "may have been sent already"
            raise NotAllowed(
                f"delivery {delivery.id} {known}: look at it with: sendonce explain delivery:{delivery.id}; "
                "to send it again, add --even-if-sent"
            )
    acted = await store.open_generations(
        [delivery.id for delivery in deliveries], kind="replay", operator=operator, reason=reason
    )
    return [
        Reopened(
            old_delivery_id=delivery.id,
            delivery_id=new_id,
            destination=delivery.destination,
            may_repeat=was_sent,
        )
        for delivery, new_id, was_sent in zip(deliveries, acted.ids, sent, strict=True)
    ]


async def discard(store: Store, dead_letter_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
    """Close dead letters for good; the deliveries stay as they are. None is closed when one is not open."""
    letters = [await open_letter(store, each) for each in dict.fromkeys(dead_letter_ids)]
    return await store.discard([letter.id for letter in letters], operator=operator, reason=reason)


async def may_have_been_sent(store: ReadStore, delivery: DeliveryRow) -> bool:
    """True when it is in doubt, or when its dead letter is: it was given up before commits were lost."""
    if delivery.in_doubt or delivery.status is not DeliveryState.DEAD_LETTERED:
        return delivery.in_doubt
    letter = await store.dead_letter_of(delivery.id)
    return letter is not None and letter.in_doubt


async def open_letter(store: ReadStore, dead_letter_id: int) -> DeadLetterRow:
    """A dead letter that a person can still decide about; NotFound or NotAllowed says why it is none."""
    letter = await store.dead_letter(dead_letter_id)
    if letter is None:
        raise NotFound(f"there is no dead letter {dead_letter_id}")
    check_open(letter)
    return letter


def check_open(letter: DeadLetterRow) -> None:
    """Raise NotAllowed when somebody has decided about it."""
    if letter.closed_at is not None:
        by = f" by {letter.closed_by}" if letter.closed_by else ""
        raise NotAllowed(f"dead letter {letter.id} was {letter.closed_as}{by} on {stamp(letter.closed_at)}")


async def _finished(store: ReadStore, delivery_id: int) -> DeliveryRow:
    delivery = await store.delivery(delivery_id)
    if delivery is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    if not delivery.status.is_final:
        raise NotAllowed(f"delivery {delivery.id} is {delivery.status}; only a finished one can be replayed")
    return delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Attested:
    """A dead letter, its delivery, and the next generation of that, which is completed."""

    dead_letter_id: int
    old_delivery_id: int
    delivery_id: int
    destination: str


async def attest(
    store: Store, dead_letter_ids: Sequence[int], *, operator: str, reason: str, notification_id: str | None = None
) -> list[Attested]:
    """Complete dead letters on a person's word, all or none; nothing is sent. None when one is not open."""
    letters = [await open_letter(store, each) for each in dict.fromkeys(dead_letter_ids)]
    acted = await store.attest(
        [letter.id for letter in letters], operator=operator, reason=reason, notification_id=notification_id
    )
    return [
        Attested(
            dead_letter_id=letter.id,
            old_delivery_id=letter.delivery_id,
            delivery_id=new_id,
            destination=letter.destination,
        )
        for letter, new_id in zip(letters, acted.ids, strict=True)
    ]


_MAIL = "mailto"


async def correct(
    store: Store,
    delivery_id: int,
    *,
    to: str | TypedDestination | None = None,
    payload: object | None = None,
    operator: str,
    reason: str,
    even_if_sent: bool = False,
) -> Reopened:
    """Send what was given up to another destination, with other content, or both; the delivery that goes instead.

    `to` is a URI, or an Email with the whole content. `payload` is what is sent instead of the event's own, which stays
    as it was recorded. The token is a new one: what may have been sent before needs `even_if_sent`.
    """
    delivery, address = await _found(store, delivery_id)
    may_repeat = await may_have_been_sent(store, delivery)
    if may_repeat and not even_if_sent:
        raise NotAllowed(
            f"delivery {delivery.id} may have been sent already: look at it with: sendonce explain "
            f"delivery:{delivery.id}; to send the correction all the same, add --even-if-sent"
        )
    wanted = _rendered(delivery, address, to, payload)
    before, after = scheme_of(address), scheme_of(wanted.uri)
    if before != after and wanted.content is None and await store.content(delivery.id) is not None:
        raise NotAllowed(f"its content was made for {before}; give the content for {after} too")
    acted = await store.correct(
        delivery.id,
        content=wanted.content,
        destination=None if wanted.uri == address else wanted.uri,
        operator=operator,
        reason=reason,
        even_if_sent=even_if_sent,
    )
    return Reopened(
        old_delivery_id=delivery.id, delivery_id=acted.ids[0], destination=wanted.uri, may_repeat=may_repeat
    )


async def amended_mail(store: Store, delivery_id: int, to: str | None, changes: Mapping[str, str]) -> Email:
    """A delivery's e-mail with some of its parts changed (subject, text, html), for another address or the same."""
    delivery, address = await _found(store, delivery_id)
    uri = address if to is None else normalise(to)
    if scheme_of(uri) != _MAIL:
        raise BadDestination("subject, text and html belong to an e-mail, and this is none; give its payload")
    parts: dict[str, Any] = json.loads(await store.content(delivery.id) or "{}")
    files = [
        Attachment(each["filename"], base64.b64decode(each["content"]), each["content_type"])
        for each in parts.pop("attachments", ())
    ]
    return Email(uri.removeprefix(f"{_MAIL}:"), **{**parts, **changes}, attachments=files)


def _rendered(delivery: DeliveryRow, address: str, to: str | TypedDestination | None, payload: object | None) -> Routed:
    """Where it goes now, with what it is sent instead of what it was, if that changes; as `publish` renders it."""
    event = new_event(delivery.type, payload, key=delivery.key, to=to)
    wanted = event.destinations[0] if event.destinations else Routed(address)
    if payload is None:
        return wanted
    if wanted.content is not None:
        raise BadEvent("give the content with the destination, or the payload; not both")
    if scheme_of(wanted.uri) == _MAIL:
        raise BadEvent("an e-mail's content is its subject, text and html; give these instead of a payload")
    return Routed(wanted.uri, event.payload)


async def _found(store: Store, delivery_id: int) -> tuple[DeliveryRow, str]:
    """The delivery, and where it leads to."""
    delivery = await store.delivery(delivery_id)
    if delivery is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    if delivery.subscription_id is not None:
        subscription = await store.subscription(delivery.subscription_id)
        if subscription is not None:
            return delivery, subscription.destination
    return delivery, delivery.destination
