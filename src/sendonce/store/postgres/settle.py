"""settle: attempts closed, deliveries moved and dead letters written, by one statement, and late results kept.

Results go as one array literal for each column, null where every value is that of a plain success.
"""

from collections.abc import Sequence
from datetime import timedelta

from sendonce.domain.attempts import Result, Verdict, error_of, notification_id_of, sent_at_of
from sendonce.domain.outcomes import Delivered
from sendonce.domain.texts import CODE_LENGTH, ID_LENGTH, MESSAGE_LENGTH, RESPONSE_LENGTH, clean
from sendonce.sql.queries import array
from sendonce.store.evidence import Seen, evidence_of, intent_of
from sendonce.store.postgres.connection import Connection, fetch

UNREADABLE = "unreadable"


async def settle_on(connection: Connection, results: Sequence[Result], *, bare: bool = False) -> list[Verdict]:
    """Write results on this connection, in the transaction it may be in; what became of each."""
    first: dict[tuple[int, int, int], int] = {}
    for place, (report, _) in enumerate(results):
        first.setdefault((report.claim.delivery_id, report.claim.attempt, report.lease_id), place)
    distinct = results if len(first) == len(results) else [results[place] for place in first.values()]
    count, keys = (await fetch(connection, "settle", columns_of(distinct, bare=bare)))[0]
    if count == len(results):
        return [Verdict.APPLIED] * len(results)
    written = set(first) if count == len(first) else {tuple(key) for key in keys or ()}
    applied = {place for key, place in first.items() if key in written}
    rest = [result for place, result in enumerate(results) if place not in applied]
    async with connection.transaction():
        judged = iter(await _judge(connection, rest))
    return [Verdict.APPLIED if place in applied else next(judged) for place in range(len(results))]


async def _judge(connection: Connection, results: Sequence[Result]) -> list[Verdict]:
    """Tell the same result again from a late one, and keep a late one as evidence."""
    values = {
        "delivery_ids": [result.report.claim.delivery_id for result in results],
        "attempts": [result.report.claim.attempt for result in results],
    }
    seen = {(row[0], row[1]): Seen._make(row[2:]) for row in await fetch(connection, "judge", values)}
    verdicts = []
    for result in results:
        claim, lease_id, outcome = result.report[:3]
        evidence = evidence_of(result.report, seen.get((claim.delivery_id, claim.attempt)))
        verdicts.append(evidence.verdict)
        if evidence.verdict is not Verdict.LATE:
            continue
        proof = intent_of(claim) | {"notification_id": evidence.notification_id}
        proven = evidence.is_proof and await fetch(connection, "prove", proof)
        finding = {
            "delivery_id": proven[0][0] if proven else claim.delivery_id,
            "notification_id": evidence.notification_id,
            "attempt": claim.attempt,
            "kind": "late_proof" if proven else "late_result",
            "outcome": type(outcome).__name__,
            "error_code": evidence.error_code,
            "details": f"reported under lease {lease_id} when the delivery was {evidence.state}",
        }
        await fetch(connection, "find", finding)
    return verdicts


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
