"""Workers and their leases: register, beat, renew, release, expire."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta

from sendonce.domain.attempts import Claim, Report, Result, Verdict, Witness
from sendonce.domain.outcomes import LEASE_EXPIRED
from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.sql.steps import Row
from sendonce.store.records import ALIVE, LATELY
from sendonce.store.served import served_of
from sendonce.store.sqlite.lanes import Lane, Transaction
from sendonce.store.sqlite.lists import LAST
from sendonce.store.sqlite.orchestrating import claim_of
from sendonce.store.sqlite.settling import settle
from sendonce.store.sqlite.times import microseconds, moment, stamp

_WIDTH = len(Claim._fields)


class Leasing:
    """See `LeaseStore`."""

    _writer: Lane
    _reader: Lane

    async def register(
        self,
        name: str,
        version: str,
        concurrency: int,
        *,
        is_listening: bool = False,
        serves: Sequence[str] | None = None,
    ) -> int:
        return await self._writer.run(_register, name, version, concurrency, is_listening, serves)

    async def served(self, worker_id: int) -> dict[str, bool]:
        return served_of(await self._reader.run(served_rows, worker_id))

    async def beat(self, worker_id: int, *, progressed: bool, witness: Witness | None = None) -> Witness | None:
        return await self._writer.run(_beat, worker_id, progressed, witness)

    async def leave(self, worker_id: int) -> None:
        await self._writer.run(Transaction.change, "leave", {"worker_id": worker_id})

    async def is_eldest(self, worker_id: int) -> bool:
        return await self._reader.run(_eldest) == [(worker_id,)]

    async def renew(self, lease_ids: Sequence[int], hold: timedelta) -> set[int]:
        return await self._writer.run(_renew, lease_ids, hold) if lease_ids else set()

    async def release(self, lease_ids: Sequence[int]) -> None:
        if lease_ids:
            await self._writer.run(Transaction.change, "release", {"lease_ids": json.dumps(list(lease_ids))})

    async def expire(self, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]) -> list[Result]:
        return await self._writer.run(_expire, limit, decide)

    async def adopt(
        self, after: int, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]
    ) -> tuple[list[Result], int | None]:
        return await self._writer.run(_adopt, after, limit, decide)

    async def is_idle(self) -> bool:
        return bool((await self._reader.run(Transaction.fetch, "is_idle"))[0][0])

    async def roll_up_counters(self) -> bool:
        await self._writer.run(_roll_up_counters)
        return False


def _register(
    transaction: Transaction,
    name: str,
    version: str,
    concurrency: int,
    is_listening: bool,
    serves: Sequence[str] | None,
) -> int:
    values = {
        "name": clean(name, MESSAGE_LENGTH),
        "version": clean(version, CODE_LENGTH),
        "concurrency": concurrency,
        "is_listening": is_listening,
        "serves": None if serves is None else json.dumps(list(serves)),
    }
    return int(transaction.fetch("register", values)[0][0])


def _beat(transaction: Transaction, worker_id: int, progressed: bool, witness: Witness | None) -> Witness | None:
    values = {
        "worker_id": worker_id,
        "progressed": progressed,
        "claimed_at": witness and stamp(witness.at),
        "claim": witness and json.dumps(witness[:4]),
    }
    transaction.change("beat", values)
    rows = transaction.fetch("newest_claim")
    return Witness._make([*json.loads(rows[0][0]), moment(rows[0][1])]) if rows else None


def served_rows(transaction: Transaction, worker_id: int) -> list[Row]:
    """What workers other than this one serve, and whether one of them is alive."""
    alive, lately = transaction.now - microseconds(ALIVE), transaction.now - microseconds(LATELY)
    return transaction.fetch("served", {"worker_id": worker_id, "alive": alive, "lately": lately})


def _eldest(transaction: Transaction) -> list[Row]:
    return transaction.fetch("eldest_worker", {"since": transaction.now - microseconds(ALIVE)})


def _renew(transaction: Transaction, lease_ids: Sequence[int], hold: timedelta) -> set[int]:
    values = {"lease_ids": json.dumps(list(lease_ids)), "expires_at": transaction.now + microseconds(hold)}
    return {row[0] for row in transaction.fetch("renew", values)}


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


def _roll_up_counters(transaction: Transaction) -> None:
    for row in transaction.fetch("counters_to_roll_up"):
        transaction.change("roll_up_counters", {"last": row[0]})
        transaction.change("drop_counters", {"last": row[0]})
