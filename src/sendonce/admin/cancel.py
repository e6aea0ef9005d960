"""Give up deliveries that are not being sent."""

from collections.abc import Sequence
from dataclasses import dataclass

from sendonce.admin.desk import CancelDesk
from sendonce.domain.deliveries import DeliveryState


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What became of one delivery: cancelled, or why it was left as it is."""

    delivery_id: int
    done: bool
    message: str


async def cancel(desk: CancelDesk, delivery_ids: Sequence[int], *, operator: str, reason: str) -> list[Cancelled]:
    """Cancel what is Pending or waits to retry; an answer for each, in the order given."""
    wanted = list(dict.fromkeys(delivery_ids))
    acted = await desk.cancel(wanted, operator=operator, reason=reason)
    done = set(acted.ids)
    return [await _answer(desk, each, done=each in done) for each in wanted]


async def _answer(desk: CancelDesk, delivery_id: int, *, done: bool) -> Cancelled:
    delivery = await desk.delivery(delivery_id)
    if delivery is None:
        return Cancelled(delivery_id, False, f"there is no delivery {delivery_id}")
    if done:
        doubt = "; it may have been sent before" if delivery.in_doubt else ""
        return Cancelled(delivery_id, True, f"delivery {delivery_id} is cancelled{doubt}")
    if delivery.status is DeliveryState.IN_PROGRESS:
        return Cancelled(delivery_id, False, f"delivery {delivery_id} is being sent now; see what comes of it first")
    return Cancelled(delivery_id, False, f"delivery {delivery_id} is {delivery.status} already and stays so")
