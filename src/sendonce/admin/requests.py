"""Look at requests, and wait for one to end."""

import asyncio
from datetime import timedelta

from sendonce.admin.wording import counted, listed
from sendonce.domain.requests import RequestState, RequestStatus
from sendonce.errors import NotFound
from sendonce.store.readers import ReadStore

POLL = timedelta(seconds=0.5)


async def find(store: ReadStore, request_id: int) -> RequestState:
    """The request as it is now; NotFound when there is none."""
    state = await store.request(request_id)
    if state is None:
        raise NotFound(f"there is no request {request_id}")
    return state


async def wait(store: ReadStore, request_id: int, *, timeout: timedelta, poll: timedelta = POLL) -> RequestState:
    """The request when it has ended, or as it is when the time is up; NotFound when there is none."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout.total_seconds()
    while True:
        state = await find(store, request_id)
        left = end - loop.time()
        if state.status is not RequestStatus.IN_PROGRESS or left <= 0:
            return state
        await asyncio.sleep(min(poll.total_seconds(), left))


def sentence(state: RequestState) -> str:
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
