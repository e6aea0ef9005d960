"""A delivery's story in plain words: where it goes, every attempt, why it is where it is, and what happens next."""

from dataclasses import dataclass

from sendonce.admin.explain.sentences import error_text, whereabouts
from sendonce.admin.explain.snapshot import Known
from sendonce.admin.text import ago, dated, one_line
from sendonce.domain.durations import format_duration
from sendonce.store.records import ATTESTED, AttemptRow, CorrectionRow, EvidenceRow, FindingRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One delivery told: sentences beside what they were made of. Holds no payload."""

    goes_to: str
    attempts: tuple[str, ...]
    whereabouts: tuple[str, ...]
    generations: tuple[str, ...]
    findings: tuple[str, ...]
    evidence: tuple[str, ...]
    known: Known


def tell(known: Known) -> Story:
    return Story(
        goes_to=_goes_to(known),
        attempts=tuple(_attempt(known, each) for each in known.attempts),
        whereabouts=tuple(whereabouts(known)),
        generations=(*_generations(known), *(_correction(known, each) for each in known.corrections)),
        findings=tuple(_finding(known, each) for each in known.findings if each.kind != ATTESTED),
        evidence=tuple(_evidence(known, each) for each in known.evidence),
        known=known,
    )


def _goes_to(known: Known) -> str:
    delivery = known.delivery
    if delivery.subscription_id is None:
        return f"to {one_line(delivery.destination, 2000)}"
    if known.subscription is None:
        return f"to subscription {delivery.subscription_id}, which is no longer kept"
    return f"to {one_line(known.address, 2000)}, for subscription {delivery.subscription_id}"


def _attempt(known: Known, attempt: AttemptRow) -> str:
    begun = f"attempt {attempt.attempt}, {ago(attempt.created_at, known.now)}"
    if attempt.finished_at is None or attempt.outcome is None:
        return f"{begun}: has not ended" + known.for_operators(f", under lease {attempt.lease_id}")
    told = f"{begun}, took {format_duration(attempt.finished_at - attempt.created_at)}: {attempt.outcome}"
    if attempt.error_code or attempt.error_message:
        told += f" ({error_text(attempt)})"
    if attempt.notification_id:
        told += f", the other side's id is {one_line(attempt.notification_id)}"
    if attempt.response:
        told += f"; the answer: {one_line(attempt.response, 120)}"
    if attempt.outcome == "Unknown":
        told += "; it may have been sent"
    return told


def _generations(known: Known) -> list[str]:
    told = []
    for other in known.generations:
        if other.generation < known.delivery.generation:
            told.append(f"generation {other.generation} before it is delivery {other.id}, {other.status}")
        elif other.generation > known.delivery.generation:
            told.append(
                f"generation {other.generation} after it is delivery {other.id}, {other.status}"
                + known.for_operators(f": sendonce explain delivery:{other.id}")
            )
    return told


def _correction(known: Known, correction: CorrectionRow) -> str:
    by = f" by {one_line(correction.operator)}" if correction.operator else ""
    why = f" ({one_line(correction.reason)})" if correction.reason else ""
    told = f"corrected {ago(correction.created_at, known.now)}{by}{why}"
    has_moved = correction.destination != correction.replaced_destination
    if correction.delivery_id == known.delivery.id:
        before = one_line(correction.replaced_destination or "", 2000) if has_moved else "with other content"
        return f"{told}: it goes instead of delivery {correction.replaces}{' to' if has_moved else ','} {before}"
    after = f"to {one_line(correction.destination, 2000)}" if has_moved else "with other content"
    new_id = correction.delivery_id
    more = known.for_operators(f": sendonce explain delivery:{new_id}")
    return f"{told}: delivery {new_id} goes instead, {after}{more}"


_EFFECTS = {
    "settled": "that settled it",
    "known": "that was known",
    "contradicts": "that contradicts what was known, and changed nothing",
    "noted": "that is for whoever decides about it",
}


def _evidence(known: Known, evidence: EvidenceRow) -> str:
    occurred = "" if evidence.occurred_at is None else f", as of {dated(evidence.occurred_at, known.now)}"
    about = f" ({one_line(evidence.details)})" if evidence.details else ""
    said = f"{one_line(evidence.source)} said {evidence.outcome}{about}{occurred}"
    return f"{ago(evidence.created_at, known.now)} {said}; {_EFFECTS.get(evidence.effect, evidence.effect)}"


def _finding(known: Known, finding: FindingRow) -> str:
    about = f" about attempt {finding.attempt}" if finding.attempt is not None else ""
    parts = [finding.outcome, finding.error_code, finding.notification_id, finding.details]
    said = ", ".join(one_line(part) for part in parts if part)
    return f"{finding.kind}{about}, {ago(finding.created_at, known.now)}" + (f": {said}" if said else "")
