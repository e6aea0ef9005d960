"""settle: attempts closed, deliveries moved and dead letters written, by whole statements, in one transaction."""

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import TypeAlias

from sendonce.domain.attempts import Report, Result, Verdict, closing_state, error_of, notification_id_of, sent_at_of
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.outcomes import Accepted, Delivered
from sendonce.domain.texts import CODE_LENGTH, ID_LENGTH, MESSAGE_LENGTH, RESPONSE_LENGTH, clean
from sendonce.sql.queries import with_parameters
from sendonce.sql.steps import Row
from sendonce.store.evidence import Seen, evidence_of, intent_of
from sendonce.store.sqlite.connection import QUERIES, Transaction, microseconds, stamp

Key: TypeAlias = tuple[int, int, int]

# Parameters without names take plain tuples, which cost half of what dicts do.
_ADD_RESULT = with_parameters(QUERIES["add_result"], lambda name: "?")
_COUNTED = {
    DeliveryState.COMPLETED: "completed",
    DeliveryState.PENDING_RETRY: "retried",
    DeliveryState.DEAD_LETTERED: "dead_lettered",
}
# What sqlite3 raises for a value that it cannot bind or keep.
_BAD_VALUE = (UnicodeError, OverflowError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


def settle(transaction: Transaction, results: Sequence[Result]) -> list[Verdict]:
    """Write results; what became of each, in order."""
    first: dict[Key, int] = {}
    for place, result in enumerate(results):
        first.setdefault(_key(result), place)
    _fill(transaction, [results[place] for place in first.values()])
    closed = set(transaction.fetch("close_attempts"))
    if len(closed) < len(first):
        # Only what has closed its attempt may move its delivery.
        transaction.change_many(QUERIES["drop_result"], [_named(key) for key in first if key not in closed])
    applied = {place for key, place in first.items() if key in closed}
    if applied:
        _move(transaction, [results[place] for place in applied])
    if len(applied) == len(results):
        return [Verdict.APPLIED] * len(results)
    return _verdicts(transaction, results, applied)


def _move(transaction: Transaction, results: Sequence[Result]) -> None:
    """Move the deliveries of the results that are filled in, bury those given up, and count."""
    transaction.change("move_deliveries")
    counts = Counter([_COUNTED[result.decision.to] for result in results])
    if counts["dead_lettered"]:
        transaction.change("add_dead_letters")
    counts["in_doubt"] = sum(result.decision.in_doubt for result in results)
    for name, amount in counts.items():
        if amount:
            transaction.change("count", {"name": name, "amount": amount})


def _verdicts(transaction: Transaction, results: Sequence[Result], applied: Set[int]) -> list[Verdict]:
    pairs = json.dumps([_key(result)[:2] for place, result in enumerate(results) if place not in applied])
    seen = {(row[0], row[1]): Seen._make(row[2:]) for row in transaction.fetch("judge", {"pairs": pairs})}
    return [
        Verdict.APPLIED if place in applied else _judge(transaction, result.report, seen)
        for place, result in enumerate(results)
    ]


def _judge(transaction: Transaction, report: Report, seen: Mapping[tuple[int, int], Seen]) -> Verdict:
    """Tell the same result again from a late one, and keep a late one as evidence."""
    claim, lease_id, outcome = report[:3]
    evidence = evidence_of(report, seen.get((claim.delivery_id, claim.attempt)))
    if evidence.verdict is not Verdict.LATE:
        return evidence.verdict
    proof = intent_of(claim) | {"notification_id": evidence.notification_id}
    proven = evidence.is_proof and transaction.fetch("prove", proof)
    finding = {
        "delivery_id": proven[0][0] if proven else claim.delivery_id,
        "notification_id": evidence.notification_id,
        "attempt": claim.attempt,
        "kind": "late_proof" if proven else "late_result",
        "outcome": type(outcome).__name__,
        "error_code": evidence.error_code,
        "details": f"reported under lease {lease_id} when the delivery was {evidence.state}",
    }
    transaction.change("find", finding)
    return Verdict.LATE


def _fill(transaction: Transaction, results: Sequence[Result]) -> None:
    """Bring the results to where statements can reach them. One that cannot be kept goes in bare."""
    transaction.change("clear_results")
    try:
        transaction.change_many(_ADD_RESULT, [_row(result, transaction.now) for result in results])
    except _BAD_VALUE:
        transaction.change("clear_results")
        for result in results:
            try:
                transaction.change_many(_ADD_RESULT, [_row(result, transaction.now)])
            except _BAD_VALUE:
                transaction.change_many(_ADD_RESULT, [_row(result, transaction.now, bare=True)])


def _row(result: Result, now: int, *, bare: bool = False) -> Row:
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
        None if decision.delay is None else now + microseconds(decision.delay),
        None if decision.left_alone is None else now + microseconds(decision.left_alone),
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


def _named(key: Key) -> dict[str, int]:
    return dict(zip(("delivery_id", "attempt", "lease_id"), key, strict=True))
