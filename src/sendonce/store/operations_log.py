"""The operations log: who did what and why, written in the action's own transaction."""

from collections.abc import Sequence

from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.sql.steps import Steps, rows
from sendonce.store.records import Acted


def log(
    kind: str, operator: str, reason: str | None, ids: Sequence[int], *, subject: str, affected: int | None = None
) -> Steps[Acted]:
    """Write one action: on these ids, or on what its subject names, which are so many."""
    named = " ".join(str(each) for each in ids[:10]) + (" …" if len(ids) > 10 else "")
    [[operation_id]] = yield from rows(
        "log_operation",
        kind=kind,
        operator=said(operator),
        reason=said(reason),
        subject=f"{subject} {named}".strip(),
        affected=len(ids) if affected is None else affected,
    )
    return Acted(ids=tuple(ids), operation_id=operation_id)


def log_upkeep(kind: str, *, operator: str, reason: str, subject: str, affected: int, details: str) -> Steps[int]:
    """Write into the operations log what was done by hand; the row's id."""
    [[operation_id]] = yield from rows(
        "log_upkeep",
        kind=clean(kind, CODE_LENGTH),
        operator=said(operator),
        reason=said(reason),
        subject=subject,
        affected=affected,
        details=details,
    )
    return int(operation_id)


def said(text: str | None) -> str | None:
    """What a person has said, as every database keeps it: what it cannot hold is replaced, and the rest is cut."""
    return None if text is None else clean(text, MESSAGE_LENGTH)
