"""What reconciliation asks of the database: deliveries in doubt, a person's attestation, and what is marked sent."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sendonce.domain.attempts import NO_FENCE, Fence
from sendonce.domain.limits import Limits
from sendonce.domain.serving import Served
from sendonce.domain.texts import ID_LENGTH, MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.filters import Filter
from sendonce.store.letters import check_all_closed
from sendonce.store.ports import Started
from sendonce.store.postgres.journal import log_operation
from sendonce.store.postgres.lanes import Connection, fetch
from sendonce.store.postgres.losses import doubt_step
from sendonce.store.postgres.orchestrating import Orchestrating
from sendonce.store.postgres.reading import Reading
from sendonce.store.records import ATTESTED, ROOM_CAP, Acted, DeliveryRow

WINDOW = 1000
# A row's time is that of its transaction's beginning, and others may have got lower ids since.
LONGEST_TRANSACTION = timedelta(hours=1)
_LAST = 2**63 - 1


class Reconciling(Orchestrating, Reading):
    async def start_doubtful(
        self,
        worker_id: int,
        limit: int,
        hold: timedelta,
        *,
        after: int,
        served: Served | None = None,
        fence: Fence = NO_FENCE,
    ) -> Started:
        """See OrchestratorStore."""
        while True:
            values, limits = {"limit": limit, "after": after}, Limits(served=served)
            claimed = await self._claim("start_doubtful", values, worker_id, hold, limits, fence)
            if claimed.lease is not None or not claimed.held:
                return Started(claimed.lease, refused=claimed.refused)
            # All of these are stopped, paused or not served here; there may be others behind them.
            after = claimed.until[1]

    async def doubt(self, after: int, limit: int, *, wait: timedelta, is_exact: bool = False) -> tuple[int, int | None]:
        """See OrchestratorStore."""
        step = {"after": after, "upto": _LAST, "limit": limit, "wait": wait.total_seconds(), "loss_id": None}
        async with self.results.transaction() as connection:
            return await doubt_step(connection, step, is_exact=is_exact)

    async def log_doubt(self, *, operator: str, reason: str, affected: int) -> int:
        """See OrchestratorStore."""
        said = {"operator": clean(operator, MESSAGE_LENGTH), "reason": clean(reason, MESSAGE_LENGTH)}
        values = {"kind": "doubt", "subject": "open deliveries", **said}
        return int((await self.results.fetch("log_operation", {**values, "affected": affected}))[0][0])

    async def attest(
        self, dead_letter_ids: Sequence[int], *, operator: str, reason: str, notification_id: str | None = None
    ) -> Acted:
        """See OperatorStore."""
        ids = list(dict.fromkeys(dead_letter_ids))
        async with self.people.transaction() as connection:
            deliveries = await _open_letters(connection, ids)
            await fetch(connection, "lock_deliveries", {"delivery_ids": deliveries})
            closing = {"dead_letter_ids": ids, "operator": clean(operator, MESSAGE_LENGTH)}
            closed = await fetch(connection, "close_attested", closing)
            check_all_closed("attest", ids, [row[0] for row in closed])
            opened = []
            for delivery_id in deliveries:
                values = {"delivery_id": delivery_id, "notification_id": _named(notification_id)}
                opened.append(int((await fetch(connection, "attest", values))[0][0]))
                await _find(connection, opened[-1], ATTESTED, f"{operator}: {reason}", None)
            log = await log_operation(connection, "attest", operator, reason, ids, subject="dead letter")
            return Acted(ids=tuple(opened), operation_id=log.operation_id)

    async def add_finding(
        self, delivery_id: int, *, kind: str, details: str, notification_id: str | None = None
    ) -> bool:
        """See OperatorStore."""
        async with self.people.transaction() as connection:
            return await _find(connection, delivery_id, kind, details, notification_id)

    async def completed_after(self, after: int, *, since: datetime, limit: int) -> list[DeliveryRow]:
        """See ReadStore."""
        found: list[int] = []
        while len(found) < limit:
            rows = await self.people.fetch("completed_window", {"after": after, "since": since, "window": WINDOW})
            if not rows:
                break
            found += [delivery_id for delivery_id, is_wanted in rows if is_wanted]
            after = rows[-1][0]
        return (await self._delivery_rows(found[:limit], Filter(limit=limit)))[::-1]

    async def left_alone(self) -> tuple[int, datetime | None]:
        """See ReadStore."""
        amount, until = (await self.people.fetch("left_alone", {"cap": ROOM_CAP}))[0]
        return amount, until

    async def first_delivery_since(self, since: datetime) -> int:
        """See ReadStore."""
        newest = await self.people.fetch("delivery_window", {"before": _LAST, "window": 1})
        low, high = 1, newest[0][0] + 1 if newest else 1
        while low < high:
            middle = (low + high) // 2
            rows = await self.people.fetch("delivery_from", {"id": middle})
            if not rows or rows[0][1] >= since - LONGEST_TRANSACTION:
                high = middle
            else:
                low = rows[0][0] + 1
        return low


async def _open_letters(connection: Connection, ids: Sequence[int]) -> list[int]:
    """The deliveries of these dead letters, in their order."""
    rows = await fetch(connection, "letters_to_attest", {"dead_letter_ids": list(ids)})
    found = {row[0]: row[1:] for row in rows}
    for each in ids:
        if each not in found:
            raise NotFound(f"there is no dead letter {each}")
        if found[each][1] is not None:
            raise NotAllowed(f"dead letter {each} was {found[each][1]} already")
    return [found[each][0] for each in ids]


async def _find(connection: Connection, delivery_id: int, kind: str, details: str, notification_id: str | None) -> bool:
    values = {
        "delivery_id": delivery_id,
        "kind": kind,
        "details": clean(details, MESSAGE_LENGTH),
        "notification_id": _named(notification_id),
    }
    return bool(await fetch(connection, "add_finding", values))


def _named(notification_id: str | None) -> str | None:
    return None if notification_id is None else clean(notification_id, ID_LENGTH)
