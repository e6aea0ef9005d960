"""The operator's log: a row for every action, in the action's own transaction."""

from collections.abc import Sequence

from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.store.records import Acted
from sendonce.store.sqlite.lanes import Transaction


def log_operation(
    transaction: Transaction, kind: str, operator: str, reason: str | None, ids: Sequence[int], *, subject: str
) -> Acted:
    """Write what was done, by whom and why; the ids are named up to the first ten."""
    named = ", ".join(str(each) for each in ids[:10]) + (" …" if len(ids) > 10 else "")
    values = {
        "kind": clean(kind, CODE_LENGTH),
        "operator": clean(operator, MESSAGE_LENGTH),
        "reason": None if reason is None else clean(reason, MESSAGE_LENGTH),
        "subject": f"{subject} {named}".strip(),
        "affected": len(ids),
    }
    rows = transaction.fetch("log_operation", values)
    return Acted(ids=tuple(ids), operation_id=rows[0][0])
