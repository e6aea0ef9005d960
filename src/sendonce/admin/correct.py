"""Correct the address or the content of what was given up, and send it: a new intent, with all that was before kept."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from sendonce.admin.desk import Desk
from sendonce.admin.repair import Reopened, may_have_been_sent
from sendonce.domain.destinations import Routed, TypedDestination, normalise, scheme_of
from sendonce.domain.emails import Attachment, Email
from sendonce.domain.events import new_event
from sendonce.errors import BadDestination, BadEvent, NotAllowed, NotFound
from sendonce.store.records import DeliveryRow

_MAIL = "mailto"


async def correct(
    desk: Desk,
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
    delivery, address = await _found(desk, delivery_id)
    may_repeat = await may_have_been_sent(desk, delivery)
    if may_repeat and not even_if_sent:
        raise NotAllowed(
            f"delivery {delivery.id} may have been sent already: look at it with: sendonce explain "
            f"delivery:{delivery.id}; to send the correction all the same, add --even-if-sent"
        )
    wanted = _rendered(delivery, address, to, payload)
    before, after = scheme_of(address), scheme_of(wanted.uri)
    if before != after and wanted.content is None and await desk.content(delivery.id) is not None:
        raise NotAllowed(f"its content was made for {before}; give the content for {after} too")
    acted = await desk.correct(
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


async def amended_mail(desk: Desk, delivery_id: int, to: str | None, changes: Mapping[str, str]) -> Email:
    """A delivery's e-mail with some of its parts changed (subject, text, html), for another address or the same."""
    delivery, address = await _found(desk, delivery_id)
    uri = address if to is None else normalise(to)
    if scheme_of(uri) != _MAIL:
        raise BadDestination("subject, text and html belong to an e-mail, and this is none; give its payload")
    parts: dict[str, Any] = json.loads(await desk.content(delivery.id) or "{}")
    files = [
        Attachment(each["filename"], base64.b64decode(each["content"]), each["content_type"])
        for each in parts.pop("attachments", ())
    ]
    return Email(uri.removeprefix(f"{_MAIL}:"), **{**parts, **changes}, attachments=files)


def _rendered(delivery: DeliveryRow, address: str, to: str | TypedDestination | None, payload: object | None) -> Routed:
    """Where it goes now, with what it is sent instead of what it was, if that changes; as `publish` renders it."""
    event = new_event(delivery.type, payload, key=delivery.key, to=() if to is None else to)
    wanted = event.destinations[0] if event.destinations else Routed(address)
    if payload is None:
        return wanted
    if wanted.content is not None:
        raise BadEvent("give the content with the destination, or the payload; not both")
    if scheme_of(wanted.uri) == _MAIL:
        raise BadEvent("an e-mail's content is its subject, text and html; give these instead of a payload")
    return Routed(wanted.uri, event.payload)


async def _found(desk: Desk, delivery_id: int) -> tuple[DeliveryRow, str]:
    """The delivery, and where it leads to."""
    delivery = await desk.delivery(delivery_id)
    if delivery is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    if delivery.subscription_id is not None:
        subscription = await desk.subscription(delivery.subscription_id)
        if subscription is not None:
            return delivery, subscription.destination
    return delivery, delivery.destination
