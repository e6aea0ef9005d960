"""Open the next generation of what is finished, and close dead letters: requeue, replay and discard."""

from collections.abc import Sequence
from dataclasses import dataclass

from sendonce.admin.desk import Desk
from sendonce.admin.wording import stamp
from sendonce.domain.deliveries import DeliveryState
from sendonce.errors import NotAllowed, NotFound
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
    desk: Desk, dead_letter_ids: Sequence[int], *, operator: str, reason: str, even_if_sent: bool = False
) -> list[Reopened]:
    """Send dead letters again, all or none. What may have been sent already needs `even_if_sent`."""
    letters = [await open_letter(desk, each) for each in dict.fromkeys(dead_letter_ids)]
    for letter in letters:
        if letter.in_doubt and not even_if_sent:
            raise NotAllowed(
                f"dead letter {letter.id} may have been sent already: look at it with: sendonce explain "
                f"delivery:{letter.delivery_id}; to send it all the same, add --even-if-sent"
            )
    acted = await desk.open_generations(
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
    desk: Desk, delivery_ids: Sequence[int], *, operator: str, reason: str, even_if_sent: bool = False
) -> list[Reopened]:
    """Open the next generation of finished deliveries, all or none. What was sent needs `even_if_sent`."""
    deliveries = [await _finished(desk, each) for each in dict.fromkeys(delivery_ids)]
    sent = [each.status is DeliveryState.COMPLETED or await may_have_been_sent(desk, each) for each in deliveries]
    for delivery, was_sent in zip(deliveries, sent, strict=True):
        if was_sent and not even_if_sent:
            known = "was sent" if delivery.status is DeliveryState.COMPLETED else "may have been sent already"
            raise NotAllowed(
                f"delivery {delivery.id} {known}: look at it with: sendonce explain delivery:{delivery.id}; "
                "to send it again, add --even-if-sent"
            )
    acted = await desk.open_generations(
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


async def discard(desk: Desk, dead_letter_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
    """Close dead letters for good; the deliveries stay as they are. None is closed when one is not open."""
    letters = [await open_letter(desk, each) for each in dict.fromkeys(dead_letter_ids)]
    return await desk.discard([letter.id for letter in letters], operator=operator, reason=reason)


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
    if letter.closed_at is not None:
        by = f" by {letter.closed_by}" if letter.closed_by else ""
        raise NotAllowed(f"dead letter {letter.id} was {letter.closed_as}{by} on {stamp(letter.closed_at)}")
    return letter


async def _finished(store: ReadStore, delivery_id: int) -> DeliveryRow:
    delivery = await store.delivery(delivery_id)
    if delivery is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    if not delivery.status.is_final:
        raise NotAllowed(f"delivery {delivery.id} is {delivery.status}; only a finished one can be replayed")
    return delivery
