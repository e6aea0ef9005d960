"""The operations log, for what is still written for this database alone."""

from collections.abc import Sequence

from sendonce.store.operations_log import log
from sendonce.store.records import Acted
from sendonce.store.sqlite.connection import Transaction


def log_operation(
    transaction: Transaction, kind: str, operator: str, reason: str | None, ids: Sequence[int], *, subject: str
) -> Acted:
    """Write into the operations log, in the transaction of what was done."""
    return transaction.carry_out(log(kind, operator, reason, ids, subject=subject))
