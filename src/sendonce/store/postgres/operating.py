"""What a person may do: open generations, discard, stop and resume, subscriptions. Each is one transaction."""

from collections.abc import Sequence

from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.letters import check_all_closed
from sendonce.store.postgres.connection import Connection, Connections, fetch
from sendonce.store.postgres.correcting import check_not_corrected
from sendonce.store.postgres.journal import log_operation
from sendonce.store.postgres.retaining import check_contents
from sendonce.store.records import Acted


class Operating(Connections):
    async def open_generations(self, delivery_ids: Sequence[int], *, kind: str, operator: str, reason: str) -> Acted:
        """See OperatorStore."""
        ids = list(dict.fromkeys(delivery_ids))
        async with self.people.transaction() as connection:
            await fetch(connection, "lock_deliveries", {"delivery_ids": ids})
            await _check_finished(connection, ids)
            await check_not_corrected(connection, ids)
            closing = {"delivery_ids": ids, "operator": clean(operator, MESSAGE_LENGTH)}
            closed = await fetch(connection, "close_dead_letters_of", closing)
            check_all_closed(kind, ids, [row[0] for row in closed])
            rows = await fetch(connection, "open_generations", {"delivery_ids": ids, "kind": kind})
            await check_contents(connection, ids, [row[0] for row in rows])
            log = await log_operation(connection, kind, operator, reason, ids, subject="delivery")
            return Acted(ids=tuple(row[0] for row in rows), operation_id=log.operation_id)

    async def discard(self, dead_letter_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        """See OperatorStore."""
        async with self.people.transaction() as connection:
            values = {"dead_letter_ids": list(dead_letter_ids), "operator": clean(operator, MESSAGE_LENGTH)}
            ids = sorted(row[0] for row in await fetch(connection, "discard", values))
            check_all_closed("discard", dead_letter_ids, ids)
            return await log_operation(connection, "discard", operator, reason, ids, subject="dead letter")


async def _check_finished(connection: Connection, ids: Sequence[int]) -> None:
    rows = {row[0]: row[1:] for row in await fetch(connection, "newest_generations", {"delivery_ids": ids})}
    for delivery_id in ids:
        if delivery_id not in rows:
            raise NotFound(f"there is no delivery {delivery_id}")
        status, newest_id, generation = rows[delivery_id]
        if newest_id != delivery_id:
            raise NotAllowed(f"delivery {delivery_id} has a newer generation: delivery {newest_id} ({generation})")
        if status not in ("Completed", "DeadLettered"):
            raise NotAllowed(f"delivery {delivery_id} is {status}; only a finished one can be opened again")
