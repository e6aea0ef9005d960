"""What is done by filter, in steps; and the operations log. How far a step has come is written with what it did."""

import json
from collections.abc import Callable, Sequence

from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.bulk import (
    CANCEL,
    CHANGES,
    PAUSED,
    REPLAY,
    REQUEUE,
    RUNNING,
    NewOperation,
    OperationRow,
    Window,
    refusal,
)
from sendonce.store.filters import Filter
from sendonce.store.sqlite.connection import OwnConnection, Transaction, stamp
from sendonce.store.sqlite.journal import log_operation
from sendonce.store.sqlite.rows import record

WINDOWS = {REQUEUE: "requeue_window", REPLAY: "replay_window", CANCEL: "cancel_window"}


class Bulk:
    """See `BulkStore`."""

    _writer: OwnConnection
    _reader: OwnConnection

    async def operations(self, *, before: int, state: str | None, limit: int) -> list[OperationRow]:
        values = {"before": before, "state": state, "limit": limit}
        rows = await self._reader.run(Transaction.fetch, "operations", values)
        return [record(OperationRow, row) for row in rows]

    async def operation(self, operation_id: int) -> OperationRow | None:
        rows = await self._reader.run(Transaction.fetch, "operation", {"operation_id": operation_id})
        return record(OperationRow, rows[0]) if rows else None

    async def match(self, kind: str, wanted: Filter, *, after: int, upper: int, window: int) -> Window:
        return await self._reader.run(_match, kind, wanted, (after, upper, window), window)

    async def bounds(self, kind: str) -> tuple[int, int]:
        query = "letter_bounds" if kind == REQUEUE else "delivery_bounds"
        first, upper = (await self._reader.run(Transaction.fetch, query))[0]
        return first, upper

    async def begin_operation(self, operation: NewOperation) -> OperationRow:
        return await self._writer.run(_begin, operation)

    async def step(self, operation_id: int, *, window: int, most: int) -> OperationRow:
        return await self._writer.run(take_step, operation_id, window, most, _open)

    async def set_operation_state(
        self, operation_id: int, state: str, *, operator: str, reason: str | None
    ) -> OperationRow:
        return await self._writer.run(_set_state, operation_id, state, operator, reason)


def take_step(
    transaction: Transaction,
    operation_id: int,
    window: int,
    most: int,
    act: Callable[[Transaction, OperationRow, Sequence[int]], int],
) -> OperationRow:
    """One step of an operation; `act` says how many it has changed."""
    operation = _found(transaction, operation_id)
    if operation.state != RUNNING or operation.filter is None:
        return operation
    wanted = Filter.read(operation.filter)
    place = (operation.last_id, operation.upper_id, window)
    seen = _match(transaction, operation.kind, wanted, place, most)
    ids = [each.delivery_id for each in seen.found if wanted.even_if_sent or not each.may_have_arrived]
    last_id = operation.upper_id if seen.last_id is None else seen.last_id
    affected = act(transaction, operation, ids) if ids else 0
    values = {
        "operation_id": operation_id,
        "last_id": last_id,
        "looked": seen.looked,
        "affected": affected,
        "skipped": len(seen.found) - affected,
        "ended": last_id >= operation.upper_id,
    }
    return record(OperationRow, transaction.fetch("move_operation", values)[0])


def _open(transaction: Transaction, operation: OperationRow, ids: Sequence[int]) -> int:
    """Open the next generation of those that have content to send."""
    gone = {row[0] for row in transaction.fetch("without_content", {"delivery_ids": json.dumps(ids)})}
    opened = [each for each in ids if each not in gone]
    for each in opened:
        transaction.change("open_generation", {"delivery_id": each, "kind": operation.kind})
    transaction.change("close_dead_letters_of", {"delivery_ids": json.dumps(opened), "operator": operation.operator})
    return len(opened)


def _begin(transaction: Transaction, operation: NewOperation) -> OperationRow:
    values = {
        "kind": operation.kind,
        "operator": clean(operation.operator, MESSAGE_LENGTH),
        "reason": clean(operation.reason, MESSAGE_LENGTH),
        "subject": operation.subject,
        "filter": operation.wanted.written(),
        "rate": operation.rate,
        "first_id": operation.first_id,
        "upper_id": operation.upper_id,
    }
    return record(OperationRow, transaction.fetch("begin_operation", values)[0])


def _set_state(
    transaction: Transaction, operation_id: int, state: str, operator: str, reason: str | None
) -> OperationRow:
    operation = _found(transaction, operation_id)
    if why := refusal(operation):
        raise NotAllowed(why)
    if operation.state == state == PAUSED:
        return operation
    log_operation(transaction, CHANGES[state], operator, reason, (operation_id,), subject="operation")
    values = {"operation_id": operation_id, "state": state}
    return record(OperationRow, transaction.fetch("set_operation_state", values)[0])


def _match(transaction: Transaction, kind: str, wanted: Filter, place: tuple[int, int, int], most: int) -> Window:
    after, upper, window = place
    values = {
        "after": after,
        "upper": upper,
        "window": window,
        "most": most,
        "type": wanted.exact_type,
        "family": wanted.family,
        "destination": wanted.destination,
        "tenant": wanted.tenant,
        "reason": None if wanted.reason is None else wanted.reason.value,
        "since": None if wanted.since is None else stamp(wanted.since),
        "until": None if wanted.until is None else stamp(wanted.until),
    }
    return Window.of(transaction.fetch(WINDOWS[kind], values), most)


def _found(transaction: Transaction, operation_id: int) -> OperationRow:
    rows = transaction.fetch("operation", {"operation_id": operation_id})
    if not rows:
        raise NotFound(f"there is no operation {operation_id}")
    return record(OperationRow, rows[0])
