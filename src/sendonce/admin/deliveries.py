"""Cancel deliveries that are not being sent, and wait for a request to end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sendonce.admin.text import counted, listed
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.requests import RequestState, RequestStatus
from sendonce.errors import NotFound
from sendonce.store.ports import Store
from sendonce.store.readers import ReadStore


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What became of one delivery: cancelled, or why it was left as it is."""

    delivery_id: int
    done: bool
    message: str


async def cancel(store: Store, delivery_ids: Sequence[int], *, operator: str, reason: str) -> list[Cancelled]:
    """Cancel what is Pending or waits to retry; an answer for each, in the order given."""
    wanted = list(dict.fromkeys(delivery_ids))
    acted = await store.cancel(wanted, operator=operator, reason=reason)
    done = set(acted.ids)
    return [await _answer(store, each, done=each in done) for each in wanted]


async def _answer(store: Store, delivery_id: int, *, done: bool) -> Cancelled:
    delivery = await store.delivery(delivery_id)
    if delivery is None:
        return Cancelled(delivery_id, False, f"there is no delivery {delivery_id}")
    if done:
        doubt = "; it may have been sent before" if delivery.in_doubt else ""
        return Cancelled(delivery_id, True, f"delivery {delivery_id} is cancelled{doubt}")
    if delivery.status is DeliveryState.IN_PROGRESS:
        return Cancelled(delivery_id, False, f"delivery {delivery_id} is being sent now; see what comes of it first")
    return Cancelled(delivery_id, False, f"delivery {delivery_id} is {delivery.status} already and stays so")


POLL = timedelta(seconds=0.5)


async def find_request(store: ReadStore, request_id: int) -> RequestState:
    """The request as it is now; NotFound when there is none."""
    state = await store.request(request_id)
    if state is None:
        raise NotFound(f"there is no request {request_id}")
    return state


async def wait_for_request(
    store: ReadStore, request_id: int, *, timeout: timedelta, poll: timedelta = POLL
) -> RequestState:
    """The request when it has ended, or as it is when the time is up; NotFound when there is none."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout.total_seconds()
    while True:
        state = await find_request(store, request_id)
        left = end - loop.time()
        if state.status is not RequestStatus.IN_PROGRESS or left <= 0:
            return state
        await asyncio.sleep(min(poll.total_seconds(), left))


def request_sentence(state: RequestState) -> str:
    """How far a request is, in plain words."""
    required = [each for each in state.recipients if each.is_required]
    given_up = [each for each in required if each.status is not None and each.status.is_final and not each.notified_at]
    parts = [f"{sum(each.notified_at is not None for each in required)} of {len(required)} required are notified"]
    if given_up:
        parts.append(f"{counted(len(given_up), 'delivery', 'deliveries')} given up")
    return f"request {state.id} ({state.subject!r}, version {state.version}) {_WORDS[state.status]}: {listed(parts)}"


_WORDS = {
    RequestStatus.IN_PROGRESS: "is in progress",
    RequestStatus.RETRYABLE_FAILED: "has failed and can be requeued",
    RequestStatus.SUCCEEDED: "has succeeded",
}
