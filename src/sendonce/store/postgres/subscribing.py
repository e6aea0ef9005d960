"""Standing orders that change: a subscription's policy and types, and a test event for it alone."""

from collections.abc import Sequence
from uuid import UUID

from sendonce.domain.destinations import destination_hash
from sendonce.domain.events import NewEvent
from sendonce.errors import NotFound
from sendonce.store.postgres.journal import log_operation
from sendonce.store.postgres.lanes import Lanes, fetch
from sendonce.store.records import Acted


class Subscribing(Lanes):
    async def set_subscription_policy(
        self, subscription_id: int, policy: str | None, *, operator: str, reason: str | None
    ) -> Acted:
        """See OperatorStore."""
        async with self.people.transaction() as connection:
            values = {"subscription_id": subscription_id, "policy": policy}
            if not await fetch(connection, "set_subscription_policy", values):
                raise _missing(subscription_id)
            ids = (subscription_id,)
            return await log_operation(connection, "policy", operator, reason, ids, subject="subscription")

    async def set_subscription_types(
        self, subscription_id: int, types: Sequence[str], *, operator: str, reason: str | None
    ) -> Acted:
        """See OperatorStore."""
        async with self.people.transaction() as connection:
            named = {"subscription_id": subscription_id}
            rows = await fetch(connection, "tenant_of_subscription", named)
            if not rows:
                raise _missing(subscription_id)
            await fetch(connection, "remove_subscription_types", named)
            await fetch(connection, "add_subscription_types", {**named, "tenant": rows[0][0], "types": list(types)})
            ids = (subscription_id,)
            return await log_operation(connection, "types", operator, reason, ids, subject="subscription")

    async def add_test(self, subscription_id: int, event: NewEvent, *, operator: str) -> Acted:
        """See OperatorStore."""
        async with self.people.transaction() as connection:
            destination = f"subscription:{subscription_id}"
            values = {
                "subscription_id": subscription_id,
                "content_digest": UUID(bytes=event.content_digest),
                "type": event.type,
                "key": event.key,
                "payload": event.payload,
                "destination": destination,
                "destination_hash": UUID(bytes=destination_hash(destination)),
            }
            rows = await fetch(connection, "add_test_event", values)
            if not rows:
                raise _missing(subscription_id)
            [[delivery_id]] = await fetch(connection, "add_test_delivery", {**values, "event_id": rows[0][0]})
            log = await log_operation(connection, "test", operator, None, (subscription_id,), subject="subscription")
            return Acted(ids=(delivery_id,), operation_id=log.operation_id)


def _missing(subscription_id: int) -> NotFound:
    return NotFound(f"there is no subscription {subscription_id}, or it was removed")
