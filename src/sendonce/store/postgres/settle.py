"""settle: attempts closed, deliveries moved and dead letters written, by one statement, and late results kept.

Results go as one array literal for each column, null where every value is that of a plain success.
"""

from collections.abc import Iterable, Sequence, Set
from datetime import timedelta

from sendonce.domain.attempts import Result, Verdict, error_of, notification_id_of, sent_at_of
from sendonce.domain.outcomes import Delivered
from sendonce.domain.texts import CODE_LENGTH, ID_LENGTH, MESSAGE_LENGTH, RESPONSE_LENGTH, clean
from sendonce.sql.queries import array
from sendonce.sql.steps import Steps, rows
from sendonce.store.evidence import judge

UNREADABLE = "unreadable"


def settle(results: Sequence[Result]) -> Steps[list[Verdict]]:
    """Write results in the transaction that this is in; what became of each, in order."""
    places = yield from write(results)
    rest = [result for place, result in enumerate(results) if place not in places]
    return merged(len(results), places, (yield from judge(rest)) if rest else [])


def write(results: Sequence[Result], *, bare: bool = False) -> Steps[Set[int]]:
    """Write results by one statement; the places of those that were applied. `bare`: without texts from outside."""
    first: dict[tuple[int, int, int], int] = {}
    for place, (report, _) in enumerate(results):
        first.setdefault((report.claim.delivery_id, report.claim.attempt, report.lease_id), place)
    distinct = results if len(first) == len(results) else [results[place] for place in first.values()]
    [(count, keys)] = yield from rows("settle", **columns_of(distinct, bare=bare))
    if count == len(first):
        return set(first.values())
    written = {tuple(key) for key in keys or ()}
    return {place for key, place in first.items() if key in written}


def merged(amount: int, applied: Set[int], judged: Iterable[Verdict]) -> list[Verdict]:
    """One verdict for each of so many results: those judged are the ones that were not applied, in order."""
    others = iter(judged)
    return [Verdict.APPLIED if place in applied else next(others) for place in range(amount)]


def columns_of(results: Sequence[Result], *, bare: bool = False) -> dict[str, str | None]:
    """The values of settle. `bare` leaves out every text and time from outside: the database has refused one."""
    reports = [result.report for result in results]
    decisions = [result.decision for result in results]
    columns = {
        "deliveries": array([report.claim.delivery_id for report in reports]),
        "attempts": array([report.claim.attempt for report in reports]),
        "leases": array([report.lease_id for report in reports]),
    }
    outcomes = [report.outcome for report in reports]
    if all([type(outcome) is Delivered for outcome in outcomes]):
        codes: list[str | None] = []
        messages: list[str | None] = []
        kinds: list[str | None] = []
    else:
        codes = [UNREADABLE if bare and error_of(outcome)[0] else error_of(outcome)[0] for outcome in outcomes]
        messages = [None if bare else error_of(outcome)[1] for outcome in outcomes]
        kinds = [type(outcome).__name__ for outcome in outcomes]
    ids = [] if bare else [notification_id_of(outcome) for outcome in outcomes]
    responses = [] if bare else [outcome.response for outcome in outcomes]
    times = [] if bare else [sent_at_of(outcome) for outcome in outcomes]
    return columns | {
        "outcomes": array(kinds),
        "codes": array(_cleaned(codes, CODE_LENGTH)),
        "messages": array(_cleaned(messages, MESSAGE_LENGTH)),
        "notification_ids": array(_cleaned(ids, ID_LENGTH)),
        "responses": array(_cleaned(responses, RESPONSE_LENGTH)),
        "states": array([None if each.delay is None and each.reason is None else each.to.value for each in decisions]),
        "waits": array(_seconds([each.delay for each in decisions])),
        "reasons": array([None if each.reason is None else each.reason.value for each in decisions]),
        "doubts": array([each.doubt for each in results]),
        "times": array(times),
        "left_alone": array(_seconds([each.left_alone for each in decisions])),
        "deferrals": array([each.deferred + each.put_off if each.deferred else None for each in decisions]),
    }


def _cleaned(texts: Sequence[object], limit: int) -> list[str | None]:
    return [None if text is None else clean(text, limit) for text in texts]


def _seconds(spans: Sequence[timedelta | None]) -> list[float | None]:
    return [None if span is None else span.total_seconds() for span in spans]
