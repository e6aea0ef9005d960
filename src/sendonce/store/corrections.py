"""What can be corrected: a delivery that was given up, by a new content or a new destination."""

from typing import Any, NamedTuple

from sendonce.domain.deliveries import DeliveryState
from sendonce.errors import NotAllowed, NotFound


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


def not_again(old: int, new: int | None) -> str:
    """Why a delivery cannot be sent again: another one goes instead, or it was erased."""
    if new is None:
        return f"what delivery {old} was to send was erased, so it cannot be sent again"
    return f"delivery {old} was corrected: delivery {new} goes instead"


def check_correctable(
    delivery_id: int, found: Correctable | None, content: str | None, *, moves: bool, even_if_sent: bool
) -> Correctable:
    """The same, or NotFound or NotAllowed with why it cannot be corrected like this."""
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
