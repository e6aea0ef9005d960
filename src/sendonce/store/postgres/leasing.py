"""Workers and their leases: register, beat, renew, release, expire."""

from collections.abc import Callable, Sequence

from sendonce.domain.attempts import Claim, Report, Result, Verdict
from sendonce.domain.outcomes import LEASE_EXPIRED
from sendonce.store.postgres.connection import Connection, Connections, fetch
from sendonce.store.postgres.settle import settle_on

_WIDTH = len(Claim._fields)
ROLL_UP = 10_000


class Leasing(Connections):
    """One lane of its own: a renewal never waits for a claim or a settle."""

    async def expire(self, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]) -> list[Result]:
        """See LeaseStore."""
        async with self.leases.transaction() as connection:
            leases = await fetch(connection, "expired_leases", {"limit": limit})
            if not leases:
                return []
            lease_ids = [row[0] for row in leases]
            # One that was settled and claimed again can be named by two of them.
            delivery_ids = list(dict.fromkeys(delivery_id for row in leases for delivery_id in row[1]))
            results = await _close(connection, lease_ids, delivery_ids, decide)
            await fetch(connection, "release", {"lease_ids": lease_ids})
            return results

    async def adopt(
        self, after: int, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]
    ) -> tuple[list[Result], int | None]:
        """See LeaseStore."""
        async with self.leases.transaction() as connection:
            rows = await fetch(connection, "orphans", {"after": after, "limit": limit})
            found = [row[1:] for row in rows if row[1] is not None]
            ids, lease_ids = [row[0] for row in found], [row[1] for row in found]
            return await _close(connection, lease_ids, ids, decide) if found else [], rows[0][0]


async def _close(
    connection: Connection,
    lease_ids: Sequence[int],
    delivery_ids: Sequence[int],
    decide: Callable[[Sequence[Report]], Sequence[Result]],
) -> list[Result]:
    """Settle as Unknown what is still being sent of these deliveries under these leases."""
    values = {"lease_ids": list(lease_ids), "delivery_ids": list(delivery_ids)}
    rows = await fetch(connection, "expired_claims", values)
    reports = [Report(Claim._make(row[:_WIDTH]), row[_WIDTH], LEASE_EXPIRED) for row in rows]
    results = list(decide(reports)) if reports else []
    verdicts = await settle_on(connection, results) if results else []
    return [result for result, verdict in zip(results, verdicts, strict=True) if verdict is Verdict.APPLIED]
