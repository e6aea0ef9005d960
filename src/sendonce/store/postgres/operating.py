"""What a person may do: open generations, discard, stop and resume, subscriptions. Each is one transaction."""

from collections.abc import Sequence

from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.letters import check_all_closed
from sendonce.store.ports import Sealing
from sendonce.store.postgres.correcting import check_not_corrected
from sendonce.store.postgres.journal import log_operation
from sendonce.store.postgres.lanes import Connection, Lanes, fetch
from sendonce.store.postgres.retaining import check_contents
from sendonce.store.postgres.secrets import add_secrets
from sendonce.store.records import VERBS, Acted


class Operating(Lanes):
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

    async def stop(self, scope: str, value: str, *, operator: str, reason: str | None) -> Acted:
        """See OperatorStore."""
        async with self.people.transaction() as connection:
            values = {
                "scope": scope,
                "value": value,
                "operator": clean(operator, MESSAGE_LENGTH),
                "reason": None if reason is None else clean(reason, MESSAGE_LENGTH),
            }
            await fetch(connection, "stop", values)
            return await log_operation(connection, "stop", operator, reason, (), subject=f"{scope} {value}")

    async def resume(self, scope: str, value: str, *, operator: str) -> Acted:
        """See OperatorStore."""
        async with self.people.transaction() as connection:
            if not await fetch(connection, "lift_stop", {"scope": scope, "value": value}):
                raise NotFound(f"nothing is stopped for {scope} {value}".strip())
            await fetch(connection, "unpark", {"parked_on": f"stop:{scope}:{value}"})
            return await log_operation(connection, "resume", operator, None, (), subject=f"{scope} {value}")

    async def add_subscription(
        self,
        *,
        tenant: str,
        types: Sequence[str],
        destination: str,
        policy: str | None,
        description: str | None,
        operator: str,
        rate: float | None = None,
        secrets: Sealing | None = None,
    ) -> int:
        """See OperatorStore."""
        async with self.people.transaction() as connection:
            values = {
                "tenant": tenant,
                "destination": destination,
                "policy": policy,
                "rate": rate,
                "description": description,
            }
            subscription_id = int((await fetch(connection, "add_subscription", values))[0][0])
            named = {"tenant": tenant, "types": list(types), "subscription_id": subscription_id}
            await fetch(connection, "add_subscription_types", named)
            if secrets is not None:
                await add_secrets(connection, subscription_id, secrets(subscription_id))
            await log_operation(connection, "add", operator, None, (subscription_id,), subject="subscription")
            return subscription_id

    async def set_subscription_state(
        self, subscription_id: int, state: str, *, operator: str, reason: str | None
    ) -> Acted:
        """See OperatorStore."""
        async with self.people.transaction() as connection:
            why = None if reason is None else clean(reason, MESSAGE_LENGTH)
            values = {"subscription_id": subscription_id, "state": state, "reason": why}
            if not await fetch(connection, "set_subscription_state", values):
                raise NotFound(f"there is no subscription {subscription_id}, or it was removed")
            if state == "removed":
                await fetch(connection, "remove_subscription_types", {"subscription_id": subscription_id})
            if state in ("active", "removed"):
                await fetch(connection, "unpark", {"parked_on": f"subscription:{subscription_id}"})
            ids = (subscription_id,)
            return await log_operation(connection, VERBS[state], operator, reason, ids, subject="subscription")

    async def set_subscription_rate(
        self, subscription_id: int, rate: float | None, *, operator: str, reason: str | None
    ) -> Acted:
        """See OperatorStore."""
        async with self.people.transaction() as connection:
            values = {"subscription_id": subscription_id, "rate": rate}
            if not await fetch(connection, "set_subscription_rate", values):
                raise NotFound(f"there is no subscription {subscription_id}, or it was removed")
            if rate is None:
                await fetch(connection, "unpark", {"parked_on": f"rate:{subscription_id}"})
            return await log_operation(connection, "rate", operator, reason, (subscription_id,), subject="subscription")


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
