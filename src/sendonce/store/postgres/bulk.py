"""What is done by filter, in steps; and the operations log. How far a step has come is written with what it did."""

from collections.abc import Awaitable, Callable, Sequence

from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed, NotFound
from sendonce.sql.steps import Row
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
from sendonce.store.postgres.connection import Connection, Connections, fetch
from sendonce.store.postgres.journal import log_operation

WINDOWS = {REQUEUE: "requeue_window", REPLAY: "replay_window", CANCEL: "cancel_window"}


class Bulk(Connections):
    async def operations(self, *, before: int, state: str | None, limit: int) -> list[OperationRow]:
        """See OperationsStore."""
        values = {"before": before, "state": state, "limit": limit}
        return [_operation(row) for row in await self.people.fetch("operations", values)]

    async def operation(self, operation_id: int) -> OperationRow | None:
        """See OperationsStore."""
        rows = await self.people.fetch("operation", {"operation_id": operation_id})
        return _operation(rows[0]) if rows else None

    async def match(self, kind: str, wanted: Filter, *, after: int, upper: int, window: int) -> Window:
        """See BulkStore."""
        async with self.people.connection() as connection:
            return await _match(connection, kind, wanted, (after, upper, window), window)

    async def bounds(self, kind: str) -> tuple[int, int]:
        """See BulkStore."""
        first, upper = (await self.people.fetch("letter_bounds" if kind == REQUEUE else "delivery_bounds", {}))[0]
        return first, upper

    async def begin_operation(self, operation: NewOperation) -> OperationRow:
        """See BulkStore."""
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
        return _operation((await self.people.fetch("begin_operation", values))[0])

    async def step(self, operation_id: int, *, window: int, most: int) -> OperationRow:
        """See BulkStore."""
        async with self.people.transaction() as connection:
            return await take_step(connection, operation_id, window, most, _open)

    async def set_operation_state(
        self, operation_id: int, state: str, *, operator: str, reason: str | None
    ) -> OperationRow:
        """See BulkStore."""
        async with self.people.transaction() as connection:
            operation = await _locked(connection, operation_id)
            if why := refusal(operation):
                raise NotAllowed(why)
            if operation.state == state == PAUSED:
                return operation
            await log_operation(connection, CHANGES[state], operator, reason, (operation_id,), subject="operation")
            values = {"operation_id": operation_id, "state": state}
            return _operation((await fetch(connection, "set_operation_state", values))[0])


async def take_step(
    connection: Connection,
    operation_id: int,
    window: int,
    most: int,
    act: Callable[[Connection, OperationRow, Sequence[int]], Awaitable[int]],
) -> OperationRow:
    """One step of an operation, in the transaction that this connection is in; `act` says how many it has changed."""
    operation = await _locked(connection, operation_id)
    if operation.state != RUNNING or operation.filter is None:
        return operation
    wanted = Filter.read(operation.filter)
    place = (operation.last_id, operation.upper_id, window)
    seen = await _match(connection, operation.kind, wanted, place, most)
    ids = [each.delivery_id for each in seen.found if wanted.even_if_sent or not each.may_have_arrived]
    last_id = operation.upper_id if seen.last_id is None else seen.last_id
    affected = await act(connection, operation, ids) if ids else 0
    values = {
        "operation_id": operation_id,
        "last_id": last_id,
        "looked": seen.looked,
        "affected": affected,
        "skipped": len(seen.found) - affected,
        "ended": last_id >= operation.upper_id,
    }
    return _operation((await fetch(connection, "move_operation", values))[0])


async def _open(connection: Connection, operation: OperationRow, ids: Sequence[int]) -> int:
    """Open the next generation of those that are as they were found and have content to send, once they are held."""
    await fetch(connection, "lock_deliveries", {"delivery_ids": list(ids)})
    gone = {row[0] for row in await fetch(connection, "without_content", {"delivery_ids": list(ids)})}
    rows = await fetch(connection, "still_open", {"delivery_ids": list(ids), "kind": operation.kind})
    held = {delivery_id: is_letter for delivery_id, is_letter in rows if delivery_id not in gone}
    closing = {"delivery_ids": list(held), "operator": operation.operator}
    closed = {row[0] for row in await fetch(connection, "close_dead_letters_of", closing)}
    # Of one that somebody else has closed since, nothing is sent.
    opened = [each for each, is_letter in held.items() if not is_letter or each in closed]
    await fetch(connection, "open_generations", {"delivery_ids": opened, "kind": operation.kind})
    return len(opened)


async def _match(connection: Connection, kind: str, wanted: Filter, place: tuple[int, int, int], most: int) -> Window:
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
        "since": wanted.since,
        "until": wanted.until,
    }
    return Window.of(await fetch(connection, WINDOWS[kind], values), most)


async def _locked(connection: Connection, operation_id: int) -> OperationRow:
    rows = await fetch(connection, "lock_operation", {"operation_id": operation_id})
    if not rows:
        raise NotFound(f"there is no operation {operation_id}")
    return _operation(rows[0])


def _operation(row: Row) -> OperationRow:
    return OperationRow(**dict(zip(OperationRow.__dataclass_fields__, row, strict=True)))
