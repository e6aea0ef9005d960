"""settle: attempts closed, deliveries moved and dead letters written, by whole statements, in one transaction."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from sendonce.domain.attempts import Report, Result, Verdict, closing_state, error_of, notification_id_of, sent_at_of
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.outcomes import Accepted, Delivered
from sendonce.domain.texts import CODE_LENGTH, ID_LENGTH, MESSAGE_LENGTH, RESPONSE_LENGTH, clean
from sendonce.sql.steps import Row, Steps, now, rows
from sendonce.store.evidence import judge
from sendonce.store.sqlite.connection import stamp

Key: TypeAlias = tuple[int, int, int]

_COUNTED = {
    DeliveryState.COMPLETED: "completed",
    DeliveryState.PENDING_RETRY: "retried",
    DeliveryState.DEAD_LETTERED: "dead_lettered",
}
# What sqlite3 raises for a value that it cannot bind or keep.
_BAD_VALUE = (UnicodeError, OverflowError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


def settle(results: Sequence[Result]) -> Steps[list[Verdict]]:
    """Write results; what became of each, in order."""
    if not results:
        return []
    first: dict[Key, int] = {}
    for place, result in enumerate(results):
        first.setdefault(_key(result), place)
    yield from _fill([results[place] for place in first.values()])
    closed = set((yield from rows("close_attempts")))
    if len(closed) < len(first):
        # Only what has closed its attempt may move its delivery.
        yield from rows("drop_result", each=[key for key in first if key not in closed])
    applied = {place for key, place in first.items() if key in closed}
    if applied:
        yield from _move([results[place] for place in applied])
    if len(applied) == len(results):
        return [Verdict.APPLIED] * len(results)
    judged = iter((yield from judge([result for place, result in enumerate(results) if place not in applied])))
    return [Verdict.APPLIED if place in applied else next(judged) for place in range(len(results))]


def _move(results: Sequence[Result]) -> Steps[None]:
    """Move the deliveries of the results that are filled in, bury those given up, and count."""
    yield from rows("move_deliveries")
    counts = Counter([_COUNTED[result.decision.to] for result in results])
    if counts["dead_lettered"]:
        yield from rows("add_dead_letters")
    counts["in_doubt"] = sum(result.decision.in_doubt for result in results)
    for name, amount in counts.items():
        if amount:
            yield from rows("count", name=name, amount=amount)


def _fill(results: Sequence[Result]) -> Steps[None]:
    """Bring the results to where statements can reach them. One that cannot be kept goes in bare."""
    at = yield from now()
    yield from rows("clear_results")
    try:
        yield from rows("add_result", each=[_row(result, at) for result in results])
    except _BAD_VALUE:
        yield from rows("clear_results")
        for result in results:
            try:
                yield from rows("add_result", each=[_row(result, at)])
            except _BAD_VALUE:
                yield from rows("add_result", each=[_row(result, at, bare=True)])


def _row(result: Result, at: datetime, *, bare: bool = False) -> Row:
    (claim, lease_id, outcome, *_), decision = result
    if type(outcome) is Delivered and outcome.response is None and not bare:
        name = outcome.notification_id
        texts: tuple[str | None, ...] = (None, None, None if name is None else clean(name, ID_LENGTH), None)
    else:
        texts = _bare_texts(result.report) if bare else _texts(result.report)
    return (
        claim.delivery_id,
        claim.attempt,
        lease_id,
        closing_state(outcome).value,
        type(outcome).__name__,
        *texts,
        decision.to.value,
        decision.deferred + decision.put_off,
        result.doubt,
        None if decision.delay is None else stamp(at + decision.delay),
        None if decision.left_alone is None else stamp(at + decision.left_alone),
        None if bare or (moment := sent_at_of(outcome)) is None else stamp(moment),
        None if decision.reason is None else decision.reason.value,
    )


def _texts(report: Report) -> tuple[str | None, str | None, str | None, str | None]:
    """Error code, error message, notification id and response, fit to be kept."""
    outcome = report.outcome
    code, message = error_of(outcome)
    return (
        _cleaned(code, CODE_LENGTH),
        _cleaned(message, MESSAGE_LENGTH),
        _cleaned(notification_id_of(outcome), ID_LENGTH),
        _cleaned(outcome.response, RESPONSE_LENGTH),
    )


def _bare_texts(report: Report) -> tuple[str | None, None, None, None]:
    return (None if isinstance(report.outcome, Delivered | Accepted) else "unreadable"), None, None, None


def _cleaned(text: str | None, limit: int) -> str | None:
    return None if text is None else clean(text, limit)


def _key(result: Result) -> Key:
    claim = result.report.claim
    return claim.delivery_id, claim.attempt, result.report.lease_id
