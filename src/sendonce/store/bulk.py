"""What people have done, and what is done by filter, in steps: how far one has come is written with what it did."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Self, TypeAlias

from sendonce.errors import NotAllowed, NotFound
from sendonce.sql.steps import Steps, one, records, rows
from sendonce.store.dead_letters import open_next
from sendonce.store.deliveries import give_up
from sendonce.store.filters import Filter, Page, ids_of, look, walk
from sendonce.store.operations_log import log, said
from sendonce.store.reconciliation import complete_next

STATES = RUNNING, PAUSED, DONE, CANCELLED = "running", "paused", "done", "cancelled"
REQUEUE, REPLAY, CANCEL, ATTEST, DISCARD = "requeue", "replay", "cancel", "attest", "discard"
OF_LETTERS = (REQUEUE, ATTEST, DISCARD)
# Send nothing, so what may have arrived is not left out.
SENDS_NOTHING = (ATTEST, DISCARD)
DEFAULT_RATE = 500.0
WINDOWS = {**dict.fromkeys(OF_LETTERS, "letter_window"), REPLAY: "replay_window", CANCEL: "cancel_window"}
# What the log says of whoever brings an operation to a state.
CHANGES = {RUNNING: "resume", PAUSED: "pause", CANCELLED: "cancel"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """What a person did: who, when, what and why. With a `filter` it is done in steps from `first_id` to `upper_id`,
    and has come to `last_id`; `state` is running, paused, done or cancelled."""

    id: int
    kind: str
    operator: str
    reason: str | None
    subject: str
    state: str
    filter: str | None
    rate: float | None
    first_id: int
    last_id: int
    upper_id: int
    looked: int
    affected: int
    skipped: int
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOperation:
    """An operation that is to be done in steps: `kind` is requeue, attest, discard, replay or cancel, `rate` how many a
    second."""

    kind: str
    operator: str
    reason: str
    subject: str
    wanted: Filter
    rate: float
    first_id: int
    upper_id: int


class Found(NamedTuple):
    """One that matches: its place on the walk, its delivery, and whether that may have arrived already."""

    id: int
    nth: int
    delivery_id: int
    may_have_arrived: bool


class Window(NamedTuple):
    """A bounded step of the walk: up to which id was looked, at how many, and what matched. None: there is no more."""

    last_id: int | None
    looked: int
    found: tuple[Found, ...]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], most: int) -> Self:
        """From the rows of a window query. With `most` found, the walk has come no further than to the last of them."""
        found = tuple(Found(row[2], row[3], row[4], bool(row[5])) for row in rows if row[2] is not None)
        if len(found) == most:
            return cls(found[-1].id, found[-1].nth, found)
        return cls(rows[0][0], rows[0][1], found)


# Does what an operation is for to these, and says how many were changed.
Act: TypeAlias = Callable[[OperationRow, Sequence[Found]], Steps[int]]


def operations(*, before: int | None = None, state: str | None = None, limit: int = 50) -> Steps[Page[OperationRow]]:
    """List what people have done, the newest first, with ids below `before`."""

    def matching(ids: list[int], limit: int) -> Steps[list[OperationRow]]:
        return records(OperationRow, "operation_rows", ids=ids, state=state, limit=limit)

    return (yield from look(Filter(before=before, limit=limit), walk("operation_window"), matching, "operation_at"))


def operation(operation_id: int) -> Steps[OperationRow | None]:
    """Return one operation; None when there is none."""
    return one(OperationRow, "operation_rows", ids=[operation_id], state=None, limit=1)


def match(kind: str, wanted: Filter, *, after: int, upper: int, window: int) -> Steps[Window]:
    """Look at up to `window` dead letters (OF_LETTERS) or deliveries (replay, cancel) above `after`, and no more."""
    return _match(kind, wanted, (after, upper, window), window)


def bounds(kind: str) -> Steps[tuple[int, int]]:
    """The ids between which all that there is now is found: above the first, up to the second."""
    [(first, upper)] = yield from rows("letter_bounds" if kind in OF_LETTERS else "delivery_bounds")
    return first, upper


def begin_operation(operation: NewOperation) -> Steps[OperationRow]:
    """Enter an operation; it is running."""
    [begun] = yield from records(
        OperationRow,
        "begin_operation",
        kind=operation.kind,
        operator=said(operation.operator),
        reason=said(operation.reason),
        subject=operation.subject,
        filter=operation.wanted.written(),
        rate=operation.rate,
        first_id=operation.first_id,
        upper_id=operation.upper_id,
    )
    return begun


def step(operation_id: int, *, window: int, most: int) -> Steps[OperationRow]:
    """Look at up to `window` more, and requeue, replay, attest or discard up to `most` of those that match.

    What was done, and how far it has come, are one transaction under a lock on the operation: of two who step at
    once the second goes on where the first has come to. Nothing is done when it is not running.
    """
    return _step(operation_id, window, most, _act)


def cancel_step(operation_id: int, *, window: int, most: int) -> Steps[OperationRow]:
    """Take the next step of an operation that cancels what matches its filter, like `step`."""
    return _step(operation_id, window, most, _cancel)


def set_operation_state(operation_id: int, state: str, *, operator: str, reason: str | None) -> Steps[OperationRow]:
    """Pause an operation, let it run, or cancel it, with a row of its own in the log.

    NotFound or NotAllowed when it is not there or has ended. To pause a paused one is nothing.
    """
    found = yield from _locked(operation_id)
    if why := refusal(found):
        raise NotAllowed(why)
    if found.state == state == PAUSED:
        return found
    yield from log(CHANGES[state], operator, reason, (operation_id,), subject="operation")
    [changed] = yield from records(OperationRow, "set_operation_state", operation_id=operation_id, state=state)
    return changed


def refusal(operation: OperationRow) -> str | None:
    """Why its state cannot be changed; None when it can."""
    if operation.filter is None:
        return f"operation {operation.id} ({operation.kind}) was done at once; only what is done by filter has steps"
    if operation.state in (DONE, CANCELLED):
        return f"operation {operation.id} is {operation.state}"
    return None


def _step(operation_id: int, window: int, most: int, act: Act) -> Steps[OperationRow]:
    """One step of an operation; `act` says how many it has changed."""
    found = yield from _locked(operation_id)
    if found.state != RUNNING or found.filter is None:
        return found
    wanted = Filter.read(found.filter)
    seen = yield from _match(found.kind, wanted, (found.last_id, found.upper_id, window), most)
    takes_all = wanted.even_if_sent or found.kind in SENDS_NOTHING
    chosen = [each for each in seen.found if takes_all or not each.may_have_arrived]
    last_id = found.upper_id if seen.last_id is None else seen.last_id
    affected = (yield from act(found, chosen)) if chosen else 0
    [moved] = yield from records(
        OperationRow,
        "move_operation",
        operation_id=operation_id,
        last_id=last_id,
        looked=seen.looked,
        affected=affected,
        skipped=len(seen.found) - affected,
        ended=last_id >= found.upper_id,
    )
    return moved


def _act(operation: OperationRow, found: Sequence[Found]) -> Steps[int]:
    return (yield from _ACTS[operation.kind](operation, found))


def _open(operation: OperationRow, found: Sequence[Found]) -> Steps[int]:
    """Open the next generation of those that are as they were found and have content to send, once they are held."""
    ids = [each.delivery_id for each in found]
    yield from rows("lock_deliveries", delivery_ids=ids)
    gone = set(ids_of((yield from rows("without_content", delivery_ids=ids))))
    still = yield from rows("still_open", delivery_ids=ids, kind=operation.kind)
    held = {delivery_id: is_letter for delivery_id, is_letter in still if delivery_id not in gone}
    closed = set(
        ids_of((yield from rows("close_dead_letters_of", delivery_ids=list(held), operator=operation.operator)))
    )
    # Of one that somebody else has closed since, nothing is sent.
    opened = [each for each, is_letter in held.items() if not is_letter or each in closed]
    yield from open_next(opened, operation.kind)
    return len(opened)


def _attest(operation: OperationRow, found: Sequence[Found]) -> Steps[int]:
    """Complete the next generation of those whose dead letter is still open, once they are held."""
    yield from rows("lock_deliveries", delivery_ids=[each.delivery_id for each in found])
    letters = [each.id for each in found]
    closed = set(ids_of((yield from rows("close_attested", dead_letter_ids=letters, operator=operation.operator))))
    delivered = [each.delivery_id for each in found if each.id in closed]
    yield from complete_next(delivered, f"{operation.operator}: {operation.reason}")
    return len(delivered)


def _discard(operation: OperationRow, found: Sequence[Found]) -> Steps[int]:
    letters = [each.id for each in found]
    return len((yield from rows("discard", dead_letter_ids=letters, operator=operation.operator)))


_ACTS: Mapping[str, Act] = {REQUEUE: _open, REPLAY: _open, ATTEST: _attest, DISCARD: _discard}


def _cancel(operation: OperationRow, found: Sequence[Found]) -> Steps[int]:
    return len((yield from give_up([each.delivery_id for each in found], operation.reason)))


def _match(kind: str, wanted: Filter, place: tuple[int, int, int], most: int) -> Steps[Window]:
    after, upper, window = place
    criteria = {name: value for name, value in wanted.criteria.items() if name != "status"}
    found = yield from rows(WINDOWS[kind], after=after, upper=upper, window=window, most=most, **criteria)
    return Window.of(found, most)


def _locked(operation_id: int) -> Steps[OperationRow]:
    found = yield from one(OperationRow, "lock_operation", operation_id=operation_id)
    if found is None:
        raise NotFound(f"there is no operation {operation_id}")
    return found
