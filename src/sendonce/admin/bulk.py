"""Requeue, attest, discard, replay or cancel by filter: counted first, then done in steps that survive a crash."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from sendonce.admin.text import one_line, stamp
from sendonce.domain.deliveries import ReasonClass
from sendonce.errors import NotFound, StoreBusy
from sendonce.store.bulk import (
    ATTEST,
    CANCEL,
    CANCELLED,
    DEFAULT_RATE,
    DISCARD,
    OF_LETTERS,
    PAUSED,
    REPLAY,
    REQUEUE,
    RUNNING,
    SENDS_NOTHING,
    NewOperation,
    OperationRow,
)
from sendonce.store.filters import Filter
from sendonce.store.ports import Store

# So many are looked at in one step, and so many of them changed: a step holds its locks for a moment only.
WINDOW = 5000
MOST = 500
_WAITS = (0.1, 0.3, 1.0, 3.0, 10.0)
_LETTERS = "open dead letters"
_SUBJECTS = {
    REQUEUE: _LETTERS,
    ATTEST: _LETTERS,
    DISCARD: _LETTERS,
    REPLAY: "finished deliveries",
    CANCEL: "waiting deliveries",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What an operation would do now: how many match, and how many of these may have arrived already, or have.

    `cancelled`: so many more match that a person has cancelled, and they are left out. One preview looks at a bounded
    number of rows, `looked`; the next one goes on `after` the id `next_after`, which is None at the end.
    """

    kind: str
    subject: str
    matching: int
    may_have_arrived: int
    cancelled: int
    even_if_sent: bool
    looked: int
    next_after: int | None

    @property
    def skipped(self) -> int:
        return 0 if self.even_if_sent or self.kind in SENDS_NOTHING else self.may_have_arrived

    @property
    def affected(self) -> int:
        return self.matching - self.skipped

    def __add__(self, more: "Planned") -> "Planned":
        return replace(
            more,
            matching=self.matching + more.matching,
            may_have_arrived=self.may_have_arrived + more.may_have_arrived,
            cancelled=self.cancelled + more.cancelled,
            looked=self.looked + more.looked,
        )


async def plan(store: Store, kind: str, wanted: Filter, *, after: int | None = None) -> Planned:
    """Count what an operation would do, in one bounded step from its beginning or `after` an id; nothing is changed."""
    first, upper = await _bounds(store, kind, wanted)
    begin = first if after is None else after
    seen = await store.match(kind, wanted, after=begin, upper=upper, window=WINDOW)
    cancelled = 0
    if kind != CANCEL and wanted.reason is None:
        left_out = replace(wanted, reason=ReasonClass.CANCELLED)
        cancelled = len((await store.match(kind, left_out, after=begin, upper=upper, window=WINDOW)).found)
    return Planned(
        kind=kind,
        subject=described(kind, wanted),
        matching=len(seen.found),
        may_have_arrived=sum(each.may_have_arrived for each in seen.found),
        cancelled=cancelled,
        even_if_sent=wanted.even_if_sent,
        looked=seen.looked,
        next_after=None if seen.last_id is None or seen.last_id >= upper else seen.last_id,
    )


async def matches(store: Store, kind: str, wanted: Filter) -> bool:
    """Return whether anything matches, found in bounded steps; look no further than that."""
    after, upper = await _bounds(store, kind, wanted)
    while after < upper:
        seen = await store.match(kind, wanted, after=after, upper=upper, window=WINDOW)
        if seen.found or seen.last_id is None:
            return bool(seen.found)
        after = seen.last_id
    return False


async def begin(
    store: Store, kind: str, wanted: Filter, *, operator: str, reason: str, rate: float = DEFAULT_RATE
) -> OperationRow:
    """Enter the operation: it is about what is there now, never about what it brings forth itself. `run` does it."""
    first_id, upper_id = await _bounds(store, kind, wanted)
    return await store.begin_operation(
        NewOperation(
            kind=kind,
            operator=operator,
            reason=reason,
            subject=described(kind, wanted),
            wanted=wanted,
            rate=rate,
            first_id=min(first_id, upper_id),
            upper_id=upper_id,
        )
    )


async def run(store: Store, operation_id: int) -> AsyncIterator[OperationRow]:
    """Do an operation from where it has come to, at its rate; how far it has come after each step.

    Ends when all is done, or when somebody has paused or cancelled it. Several may run the same one.
    """
    import asyncio

    operation = await find(store, operation_id)
    rate = operation.rate or DEFAULT_RATE
    most = max(1, min(MOST, int(rate)))
    due = time.monotonic()
    while operation.state == RUNNING:
        before = operation.affected
        operation = await _step(store, operation, most)
        yield operation
        now = time.monotonic()
        due = max(due, now) + (operation.affected - before) / rate
        if operation.state == RUNNING:
            await asyncio.sleep(due - now)


async def pause(store: Store, operation_id: int, *, operator: str, reason: str | None) -> OperationRow:
    """Whoever runs it stops before the next step."""
    return await store.set_operation_state(operation_id, PAUSED, operator=operator, reason=reason)


async def resume(store: Store, operation_id: int, *, operator: str, reason: str | None) -> OperationRow:
    """Let it go on; `run` does it. Also for one whose runner was killed."""
    return await store.set_operation_state(operation_id, RUNNING, operator=operator, reason=reason)


async def cancel(store: Store, operation_id: int, *, operator: str, reason: str | None) -> OperationRow:
    """End it here, for good. What it has done stays done."""
    return await store.set_operation_state(operation_id, CANCELLED, operator=operator, reason=reason)


async def find(store: Store, operation_id: int) -> OperationRow:
    operation = await store.operation(operation_id)
    if operation is None:
        raise NotFound(f"there is no operation {operation_id}")
    return operation


def described(kind: str, wanted: Filter) -> str:
    """What an operation is about, in words: open dead letters of order.* to null:a since 2026-01-31 12:00:00 UTC."""
    parts = [
        f"given up as {wanted.reason.value}" if wanted.reason else "",
        f"of {wanted.type}" if wanted.type else "",
        f"to {one_line(wanted.destination, 2000)}" if wanted.destination else "",
        "" if wanted.tenant is None else f"for tenant {one_line(wanted.tenant)}" if wanted.tenant else "for no tenant",
        f"since {stamp(wanted.since)}" if wanted.since else "",
        f"until {stamp(wanted.until)}" if wanted.until else "",
        "(even if sent)" if wanted.even_if_sent else "",
    ]
    return " ".join([_SUBJECTS[kind], *filter(None, parts)])


async def _bounds(store: Store, kind: str, wanted: Filter) -> tuple[int, int]:
    first, upper = await store.bounds(kind)
    if kind not in OF_LETTERS and wanted.since is not None:
        first = max(first, await store.first_delivery_since(wanted.since) - 1)
    return first, upper


async def _step(store: Store, operation: OperationRow, most: int) -> OperationRow:
    """One step; tried again for a while when the database cannot answer. A step that was lost has moved nothing, and
    one whose answer was lost has moved the place from which the next one goes on."""
    import asyncio

    step = store.cancel_step if operation.kind == CANCEL else store.step
    for wait in _WAITS:
        try:
            return await step(operation.id, window=WINDOW, most=most)
        except StoreBusy:
            await asyncio.sleep(wait)
    return await step(operation.id, window=WINDOW, most=most)
