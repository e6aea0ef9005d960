"""What a tenant may know of its own deliveries: nothing about other tenants, and nothing about who runs the service."""

from dataclasses import replace

from sendonce.admin.explain.snapshot import Known
from sendonce.domain.deliveries import ReasonClass
from sendonce.store.records import ATTESTED, AttemptRow, DeadLetterRow, FindingRow

A_PERSON = "a person"
_OURS = "our_"
_VARIABLE = "SENDONCE_"


def for_tenant(known: Known) -> Known:
    """The same without operators, their reasons, workers, and how many others wait."""
    return replace(
        known,
        is_for_tenant=True,
        attempts=tuple(attempt_for_tenant(each) for each in known.attempts),
        dead_letter=None if known.dead_letter is None else _letter(known.dead_letter),
        room=None if known.room is None else replace(known.room, waiting=1),
        findings=tuple(_finding(each) for each in known.findings),
        corrections=tuple(replace(each, operator=None, reason=None) for each in known.corrections),
        has_workers=True,
    )


def attempt_for_tenant(attempt: AttemptRow) -> AttemptRow:
    """The same without advice to operators, and without what a provider has said about our own account."""
    is_ours = (attempt.error_code or "").startswith(_OURS)
    message = _without_advice(attempt.error_message)
    return replace(attempt, error_message=message, response=None if is_ours else attempt.response)


def _letter(letter: DeadLetterRow) -> DeadLetterRow:
    is_cancelled = letter.reason is ReasonClass.CANCELLED  # its message is what the operator has said
    message = None if is_cancelled else _without_advice(letter.error_message)
    return replace(letter, error_message=message, closed_by=None)


def _finding(finding: FindingRow) -> FindingRow:
    if finding.kind == ATTESTED:
        return replace(finding, details=A_PERSON)
    # A late result names the lease that it came under.
    return finding if finding.attempt is None else replace(finding, details=None)


def _without_advice(message: str | None) -> str | None:
    """Advice stands after a semicolon and names a variable."""
    if message is None:
        return None
    return "; ".join(part for part in message.split("; ") if _VARIABLE not in part) or None
