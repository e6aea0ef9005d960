"""A person corrects what was given up: new content or a new destination, as a delivery that goes instead."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.destinations import destination_hash
from sendonce.domain.texts import storable
from sendonce.errors import NotAllowed, NotFound
from sendonce.sql.steps import Steps, one, records, rows
from sendonce.store.operations_log import log, said
from sendonce.store.records import Acted, CorrectionRow


class Correctable(NamedTuple):
    """A delivery as a correction finds it: the columns of `to_correct`. `taken_by`: who has the new destination."""

    status: str
    in_doubt: bool
    closed_as: str | None
    subscription_id: int | None
    has_something_to_send: bool
    taken_by: int | None
    event_id: int
    destination_hash: Any


def correct(
    delivery_id: int,
    *,
    content: str | None,
    destination: str | None,
    operator: str,
    reason: str,
    even_if_sent: bool = False,
) -> Steps[Acted]:
    """Send what was given up with other content, or to another destination, as a new intent; the new delivery's id.

    The dead letter is closed as corrected; a request follows to the new destination. NotFound or NotAllowed, and
    nothing written, when its dead letter is not open, the event goes to that destination already, or it may have
    been sent before and that is not allowed.
    """
    destination = None if destination is None else storable(destination)  # and its hash is that of what is kept
    values = {
        "delivery_id": delivery_id,
        "content": content,
        "destination": destination,
        "destination_hash": None if destination is None else UUID(bytes=destination_hash(destination)),
    }
    yield from rows("lock_deliveries", delivery_ids=[delivery_id])
    found = yield from one(Correctable, "to_correct", **values)
    old = _checked(delivery_id, found, content, moves=destination is not None, even_if_sent=even_if_sent)
    yield from rows("add_corrected_content", **values)
    [(new_id,)] = yield from rows("open_correction", **values)
    if not (yield from rows("close_corrected", delivery_id=delivery_id, operator=said(operator))):
        raise NotAllowed(f"the dead letter of delivery {delivery_id} was closed by another person meanwhile")
    if destination is not None:
        yield from rows("move_recipient", event_id=old.event_id, old_hash=old.destination_hash, **values)
    logged = yield from log("correct", operator, reason, (delivery_id,), subject="delivery")
    yield from rows("add_correction", delivery_id=new_id, replaces=delivery_id, operation_id=logged.operation_id)
    return Acted(ids=(new_id,), operation_id=logged.operation_id)


def corrections_of(delivery_id: int) -> Steps[list[CorrectionRow]]:
    """Return what it goes instead of, and what goes instead of it."""
    return records(CorrectionRow, "corrections_of", delivery_id=delivery_id)


def content(delivery_id: int) -> Steps[str | None]:
    """Return what it is sent instead of the event's payload; None when that is what it is sent, or it was erased."""
    found = yield from rows("content_of", delivery_id=delivery_id)
    return found[0][0] if found else None


def check_not_corrected(delivery_ids: Sequence[int]) -> Steps[None]:
    """NotAllowed when another delivery goes instead of one of these, or none may because its person was erased."""
    for old, new in (yield from rows("corrected_deliveries", delivery_ids=list(delivery_ids))):
        if new is None:
            raise NotAllowed(f"what delivery {old} was to send was erased, so it cannot be sent again")
        raise NotAllowed(f"delivery {old} was corrected: delivery {new} goes instead")


def _checked(
    delivery_id: int, found: Correctable | None, content: str | None, *, moves: bool, even_if_sent: bool
) -> Correctable:
    """Return what is to be corrected; NotFound or NotAllowed with why it cannot be like this."""
    if found is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    if found.status != DeliveryState.DEAD_LETTERED:
        raise NotAllowed(f"delivery {delivery_id} is {found.status}; only one that was given up can be corrected")
    if found.closed_as is not None:
        raise NotAllowed(f"the dead letter of delivery {delivery_id} was {found.closed_as} already")
    if found.in_doubt and not even_if_sent:
        raise NotAllowed(f"delivery {delivery_id} may have been sent already")
    if content is None and not moves:
        raise NotAllowed("nothing would change; give another destination, or other content")
    if moves and found.subscription_id is not None:
        raise NotAllowed(
            f"delivery {delivery_id} is for subscription {found.subscription_id}, which says where it goes;"
            " add a subscription with the right address, or correct the content only"
        )
    if found.taken_by is not None:
        raise NotAllowed(
            f"event {found.event_id} goes there already: delivery {found.taken_by}; discard this dead letter instead"
        )
    if content is None and not found.has_something_to_send:
        raise NotAllowed(f"the content of delivery {delivery_id} was erased; give the new content too")
    return found
