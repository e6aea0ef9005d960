"""The operations log, for what is still written for this database alone."""

from collections.abc import Sequence

from sendonce.store.operations_log import log
from sendonce.store.postgres.connection import Connection, carry_out
from sendonce.store.records import Acted


async def log_operation(
    connection: Connection, kind: str, operator: str, reason: str | None, ids: Sequence[int], *, subject: str
) -> Acted:
    """Write into the operations log, in the transaction of what was done."""
    return await carry_out(connection, log(kind, operator, reason, ids, subject=subject))
