"""Workers and their leases: register, beat, renew, release, expire."""

import json
from collections.abc import Callable, Sequence

from sendonce.domain.attempts import Claim, Report, Result, Verdict
from sendonce.domain.outcomes import LEASE_EXPIRED
from sendonce.store.filters import LAST
from sendonce.store.sqlite.claims import claim_of
from sendonce.store.sqlite.connection import OwnConnection, Transaction
from sendonce.store.sqlite.settle import settle

_WIDTH = len(Claim._fields)


class Leasing:
    """See `LeaseStore`."""

    _writer: OwnConnection
    _reader: OwnConnection

    async def expire(self, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]) -> list[Result]:
        return await self._writer.run(_expire, limit, decide)

    async def adopt(
        self, after: int, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]
    ) -> tuple[list[Result], int | None]:
        return await self._writer.run(_adopt, after, limit, decide)


def _expire(
    transaction: Transaction, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]
) -> list[Result]:
    leases = transaction.fetch("expired_leases", {"limit": limit})
    if not leases:
        return []
    lease_ids = [row[0] for row in leases]
    # One that was settled and claimed again can be named by two of them.
    delivery_ids = list(dict.fromkeys(each for row in leases for each in json.loads(row[1])))
    results = _close(transaction, lease_ids, delivery_ids, decide)
    transaction.change("release", {"lease_ids": json.dumps(lease_ids)})
    return results


def _adopt(
    transaction: Transaction, after: int, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]
) -> tuple[list[Result], int | None]:
    rows = transaction.fetch("orphans", {"after": after, "limit": limit})
    last = transaction.fetch("last_of_step", {"after": after, "upto": LAST, "limit": limit})[0][0]
    return _close(transaction, [row[1] for row in rows], [row[0] for row in rows], decide) if rows else [], last


def _close(
    transaction: Transaction,
    lease_ids: Sequence[int],
    delivery_ids: Sequence[int],
    decide: Callable[[Sequence[Report]], Sequence[Result]],
) -> list[Result]:
    """Settle as Unknown what is still being sent of these deliveries under these leases."""
    values = {"lease_ids": json.dumps(list(lease_ids)), "delivery_ids": json.dumps(list(delivery_ids))}
    rows = transaction.fetch("expired_claims", values)
    reports = [Report(claim_of(row[:_WIDTH]), row[_WIDTH], LEASE_EXPIRED) for row in rows]
    results = list(decide(reports)) if reports else []
    verdicts = settle(transaction, results) if results else []
    return [result for result, verdict in zip(results, verdicts, strict=True) if verdict is Verdict.APPLIED]
