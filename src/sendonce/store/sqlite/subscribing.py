"""Standing orders that change: a subscription's policy and types, and a test event for it alone."""

import json
from collections.abc import Sequence

from sendonce.domain.destinations import destination_hash
from sendonce.domain.events import NewEvent
from sendonce.errors import NotFound
from sendonce.store.records import Acted
from sendonce.store.sqlite.journal import log_operation
from sendonce.store.sqlite.lanes import Lane, Transaction


class Subscribing:
    """See `OperatorStore`."""

    _writer: Lane

    async def set_subscription_policy(
        self, subscription_id: int, policy: str | None, *, operator: str, reason: str | None
    ) -> Acted:
        return await self._writer.run(_set_policy, subscription_id, policy, operator, reason)

    async def set_subscription_types(
        self, subscription_id: int, types: Sequence[str], *, operator: str, reason: str | None
    ) -> Acted:
        return await self._writer.run(_set_types, subscription_id, types, operator, reason)

    async def add_test(self, subscription_id: int, event: NewEvent, *, operator: str) -> Acted:
        return await self._writer.run(_add_test, subscription_id, event, operator)


def _set_policy(
    transaction: Transaction, subscription_id: int, policy: str | None, operator: str, reason: str | None
) -> Acted:
    if not transaction.fetch("set_subscription_policy", {"subscription_id": subscription_id, "policy": policy}):
        raise _missing(subscription_id)
    return log_operation(transaction, "policy", operator, reason, (subscription_id,), subject="subscription")


def _set_types(
    transaction: Transaction, subscription_id: int, types: Sequence[str], operator: str, reason: str | None
) -> Acted:
    named = {"subscription_id": subscription_id}
    rows = transaction.fetch("tenant_of_subscription", named)
    if not rows:
        raise _missing(subscription_id)
    transaction.change("remove_subscription_types", named)
    transaction.change("add_subscription_types", {**named, "tenant": rows[0][0], "types": json.dumps(list(types))})
    return log_operation(transaction, "types", operator, reason, (subscription_id,), subject="subscription")


def _add_test(transaction: Transaction, subscription_id: int, event: NewEvent, operator: str) -> Acted:
    destination = f"subscription:{subscription_id}"
    values = {
        "subscription_id": subscription_id,
        "content_digest": event.content_digest,
        "type": event.type,
        "key": event.key,
        "payload": event.payload,
        "destination": destination,
        "destination_hash": destination_hash(destination),
    }
    rows = transaction.fetch("add_test_event", values)
    if not rows:
        raise _missing(subscription_id)
    [[delivery_id]] = transaction.fetch("add_test_delivery", {**values, "event_id": rows[0][0]})
    log = log_operation(transaction, "test", operator, None, (subscription_id,), subject="subscription")
    return Acted(ids=(delivery_id,), operation_id=log.operation_id)


def _missing(subscription_id: int) -> NotFound:
    return NotFound(f"there is no subscription {subscription_id}, or it was removed")
