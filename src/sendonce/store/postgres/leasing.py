"""Workers and their leases: register, beat, renew, release, expire."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta

from sendonce.domain.attempts import Claim, Report, Result, Verdict, Witness
from sendonce.domain.outcomes import LEASE_EXPIRED
from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.store.postgres.lanes import Connection, Lanes, fetch
from sendonce.store.postgres.orchestrating import settle_on
from sendonce.store.records import ALIVE, LATELY
from sendonce.store.served import served_of

_WIDTH = len(Claim._fields)
ROLL_UP = 10_000


class Leasing(Lanes):
    """One lane of its own: a renewal never waits for a claim or a settle."""

    async def register(
        self,
        name: str,
        version: str,
        concurrency: int,
        *,
        is_listening: bool = False,
        serves: Sequence[str] | None = None,
    ) -> int:
        """See LeaseStore."""
        values = {
            "name": clean(name, MESSAGE_LENGTH),
            "version": clean(version, CODE_LENGTH),
            "concurrency": concurrency,
            "is_listening": is_listening,
            "serves": None if serves is None else json.dumps(list(serves)),
        }
        return int((await self.leases.fetch("register", values))[0][0])

    async def served(self, worker_id: int) -> dict[str, bool]:
        """See LeaseStore."""
        values = {"worker_id": worker_id, "alive": ALIVE.total_seconds(), "lately": LATELY.total_seconds()}
        return served_of(await self.leases.fetch("served", values))

    async def beat(self, worker_id: int, *, progressed: bool, witness: Witness | None = None) -> Witness | None:
        """See LeaseStore."""
        values = {
            "worker_id": worker_id,
            "progressed": progressed,
            "claimed_at": witness and witness.at,
            "claim": witness and list(witness[:4]),
        }
        rows = await self.leases.fetch("beat", values)
        return Witness._make(rows[0]) if rows else None

    async def leave(self, worker_id: int) -> None:
        """See LeaseStore."""
        await self.leases.fetch("leave", {"worker_id": worker_id})

    async def is_eldest(self, worker_id: int) -> bool:
        """See LeaseStore. People's lane: nobody waits for a lease meanwhile."""
        return await self.people.fetch("eldest_worker", {"alive": ALIVE.total_seconds()}) == [(worker_id,)]

    async def renew(self, lease_ids: Sequence[int], hold: timedelta) -> set[int]:
        """See LeaseStore."""
        values = {"lease_ids": list(lease_ids), "hold": hold.total_seconds()}
        return {row[0] for row in await self.leases.fetch("renew", values)}

    async def release(self, lease_ids: Sequence[int]) -> None:
        """See LeaseStore."""
        await self.leases.fetch("release", {"lease_ids": list(lease_ids)})

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

    async def is_idle(self) -> bool:
        """See LeaseStore."""
        return bool((await self.leases.fetch("is_idle", {}))[0][0])

    async def roll_up_counters(self) -> bool:
        """See LeaseStore."""
        rows = await self.leases.fetch("roll_up_counters", {"limit": ROLL_UP})
        return int(rows[0][0]) == ROLL_UP


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
