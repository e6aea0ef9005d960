"""What a person may do: open generations, discard, stop and resume, subscriptions. Each is one transaction."""

import json
from collections.abc import Mapping, Sequence

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.letters import check_all_closed
from sendonce.store.ports import Sealing
from sendonce.store.records import VERBS, Acted
from sendonce.store.sqlite.correcting import check_not_corrected
from sendonce.store.sqlite.journal import log_operation
from sendonce.store.sqlite.lanes import Lane, Transaction
from sendonce.store.sqlite.retaining import check_contents
from sendonce.store.sqlite.secrets import add_secrets


class Operating:
    """See `OperatorStore`."""

    _writer: Lane

    async def open_generations(self, delivery_ids: Sequence[int], *, kind: str, operator: str, reason: str) -> Acted:
        return await self._writer.run(_open_generations, delivery_ids, kind, operator, reason)

    async def discard(self, dead_letter_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        return await self._writer.run(_discard, dead_letter_ids, operator, reason)

    async def stop(self, scope: str, value: str, *, operator: str, reason: str | None) -> Acted:
        return await self._writer.run(_stop, scope, value, operator, reason)

    async def resume(self, scope: str, value: str, *, operator: str) -> Acted:
        return await self._writer.run(_resume, scope, value, operator)

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
        values = {
            "tenant": tenant,
            "destination": destination,
            "policy": policy,
            "rate": rate,
            "description": description,
        }
        return await self._writer.run(_add_subscription, values, types, secrets, operator)

    async def set_subscription_state(
        self, subscription_id: int, state: str, *, operator: str, reason: str | None
    ) -> Acted:
        return await self._writer.run(_set_subscription_state, subscription_id, state, operator, reason)

    async def set_subscription_rate(
        self, subscription_id: int, rate: float | None, *, operator: str, reason: str | None
    ) -> Acted:
        return await self._writer.run(_set_subscription_rate, subscription_id, rate, operator, reason)


def _open_generations(
    transaction: Transaction, delivery_ids: Sequence[int], kind: str, operator: str, reason: str
) -> Acted:
    ids = list(dict.fromkeys(delivery_ids))
    _check_finished(transaction, ids)
    check_not_corrected(transaction, ids)
    closing = {"delivery_ids": json.dumps(ids), "operator": clean(operator, MESSAGE_LENGTH)}
    check_all_closed(kind, ids, [row[0] for row in transaction.fetch("close_dead_letters_of", closing)])
    opened = [transaction.fetch("open_generation", {"delivery_id": each, "kind": kind})[0][0] for each in ids]
    check_contents(transaction, ids, opened)
    log = log_operation(transaction, kind, operator, reason, ids, subject="delivery")
    return Acted(ids=tuple(opened), operation_id=log.operation_id)


def _check_finished(transaction: Transaction, ids: Sequence[int]) -> None:
    rows = transaction.fetch("newest_generations", {"delivery_ids": json.dumps(ids)})
    found = {row[0]: row[1:] for row in rows}
    for delivery_id in ids:
        if delivery_id not in found:
            raise NotFound(f"there is no delivery {delivery_id}")
        status, newest_id, generation = found[delivery_id]
        if newest_id != delivery_id:
            raise NotAllowed(f"delivery {delivery_id} has a newer generation: delivery {newest_id} ({generation})")
        if not DeliveryState(status).is_final:
            raise NotAllowed(f"delivery {delivery_id} is {status}; only a finished one can be opened again")


def _discard(transaction: Transaction, dead_letter_ids: Sequence[int], operator: str, reason: str) -> Acted:
    values = {
        "dead_letter_ids": json.dumps(list(dead_letter_ids)),
        "operator": clean(operator, MESSAGE_LENGTH),
    }
    ids = sorted(row[0] for row in transaction.fetch("discard", values))
    check_all_closed("discard", dead_letter_ids, ids)
    return log_operation(transaction, "discard", operator, reason, ids, subject="dead letter")


def _stop(transaction: Transaction, scope: str, value: str, operator: str, reason: str | None) -> Acted:
    values = {
        "scope": scope,
        "value": value,
        "operator": clean(operator, MESSAGE_LENGTH),
        "reason": None if reason is None else clean(reason, MESSAGE_LENGTH),
    }
    transaction.change("stop", values)
    return log_operation(transaction, "stop", operator, reason, (), subject=f"{scope} {value}".strip())


def _resume(transaction: Transaction, scope: str, value: str, operator: str) -> Acted:
    subject = f"{scope} {value}".strip()
    if not transaction.fetch("lift_stop", {"scope": scope, "value": value}):
        raise NotFound(f"nothing is stopped for {subject}")
    transaction.change("unpark", {"parked_on": f"stop:{scope}:{value}"})
    return log_operation(transaction, "resume", operator, None, (), subject=subject)


def _add_subscription(
    transaction: Transaction,
    values: Mapping[str, object],
    types: Sequence[str],
    secrets: Sealing | None,
    operator: str,
) -> int:
    subscription_id = int(transaction.fetch("add_subscription", values)[0][0])
    named = {
        "tenant": values["tenant"],
        "types": json.dumps(list(types)),
        "subscription_id": subscription_id,
    }
    transaction.change("add_subscription_types", named)
    if secrets is not None:
        add_secrets(transaction, subscription_id, secrets(subscription_id))
    log_operation(transaction, "add", operator, None, (subscription_id,), subject="subscription")
    return subscription_id


def _set_subscription_state(
    transaction: Transaction, subscription_id: int, state: str, operator: str, reason: str | None
) -> Acted:
    values = {
        "subscription_id": subscription_id,
        "state": state,
        "reason": None if reason is None else clean(reason, MESSAGE_LENGTH),
    }
    if not transaction.fetch("set_subscription_state", values):
        raise NotFound(f"there is no subscription {subscription_id}, or it was removed")
    if state == "removed":
        transaction.change("remove_subscription_types", {"subscription_id": subscription_id})
    if state in ("active", "removed"):
        # What belongs to a removed one is claimed too: the sender refuses it, with its reason.
        transaction.change("unpark", {"parked_on": f"subscription:{subscription_id}"})
    return log_operation(transaction, VERBS[state], operator, reason, (subscription_id,), subject="subscription")


def _set_subscription_rate(
    transaction: Transaction, subscription_id: int, rate: float | None, operator: str, reason: str | None
) -> Acted:
    if not transaction.fetch("set_subscription_rate", {"subscription_id": subscription_id, "rate": rate}):
        raise NotFound(f"there is no subscription {subscription_id}, or it was removed")
    if rate is None:
        transaction.change("unpark", {"parked_on": f"rate:{subscription_id}"})
    return log_operation(transaction, "rate", operator, reason, (subscription_id,), subject="subscription")
