"""What a result that changed nothing means: the same one again, or a late one whose evidence is kept."""

from collections.abc import Sequence
from typing import NamedTuple

from sendonce.domain.attempts import Claim, Report, Result, Verdict, error_of, notification_id_of
from sendonce.domain.outcomes import Delivered
from sendonce.domain.texts import CODE_LENGTH, ID_LENGTH, clean
from sendonce.sql.steps import Steps, rows


class Seen(NamedTuple):
    """What an attempt and its delivery look like now."""

    lease_id: int
    outcome: str | None
    error_code: str | None
    notification_id: str | None
    delivery_status: str


class Evidence(NamedTuple):
    """A verdict, and what a finding says of a late result."""

    verdict: Verdict
    is_proof: bool
    notification_id: str | None
    error_code: str | None
    state: str


def intent_of(claim: Claim) -> dict[str, object]:
    """What a claim was sent for, whatever row has its number now: the parts of its token, and which try at it."""
    return {
        "tenant": claim.tenant,
        "type": claim.type,
        "key": claim.key,
        "destination": claim.destination,
        "corrections": claim.corrections,
        "generation": claim.generation,
    }


def evidence_of(report: Report, seen: Seen | None) -> Evidence:
    """Compare a report with what is written. Late is everything that is not word for word the same."""
    outcome = report.outcome
    raw_id, (raw_code, _) = notification_id_of(outcome), error_of(outcome)
    notification_id = None if raw_id is None else clean(raw_id, ID_LENGTH)
    code = None if raw_code is None else clean(raw_code, CODE_LENGTH)
    told = (report.lease_id, type(outcome).__name__, code, notification_id)
    same = seen is not None and seen[:4] == told
    return Evidence(
        Verdict.ALREADY_APPLIED if same else Verdict.LATE,
        isinstance(outcome, Delivered),
        notification_id,
        code,
        "gone" if seen is None else seen.delivery_status,
    )


def judge(results: Sequence[Result]) -> Steps[list[Verdict]]:
    """Tell results that changed nothing apart, in order: the same again, or late ones, which are kept as evidence."""
    reports = [result.report for result in results]
    found = yield from rows(
        "judge",
        delivery_ids=[report.claim.delivery_id for report in reports],
        attempts=[report.claim.attempt for report in reports],
    )
    seen = {(row[0], row[1]): Seen._make(row[2:]) for row in found}
    verdicts = []
    for report in reports:
        evidence = evidence_of(report, seen.get((report.claim.delivery_id, report.claim.attempt)))
        if evidence.verdict is Verdict.LATE:
            yield from keep(report, evidence)
        verdicts.append(evidence.verdict)
    return verdicts


def keep(report: Report, evidence: Evidence) -> Steps[None]:
    """Keep a late result: as the proof of a delivery that waits, or else as a finding."""
    claim = report.claim
    proven = []
    if evidence.is_proof:
        proven = yield from rows("prove", notification_id=evidence.notification_id, **intent_of(claim))
    yield from rows(
        "add_late_result",
        delivery_id=proven[0][0] if proven else claim.delivery_id,
        notification_id=evidence.notification_id,
        attempt=claim.attempt,
        kind="late_proof" if proven else "late_result",
        outcome=type(report.outcome).__name__,
        error_code=evidence.error_code,
        details=f"reported under lease {report.lease_id} when the delivery was {evidence.state}",
    )
