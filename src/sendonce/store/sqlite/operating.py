"""What a person may do: open generations, discard, stop and resume, subscriptions. Each is one transaction."""

import json
from collections.abc import Sequence

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.letters import check_all_closed
from sendonce.store.records import Acted
from sendonce.store.sqlite.connection import OwnConnection, Transaction
from sendonce.store.sqlite.correcting import check_not_corrected
from sendonce.store.sqlite.journal import log_operation
from sendonce.store.sqlite.retaining import check_contents


class Operating:
    """See `OperatorStore`."""

    _writer: OwnConnection

    async def open_generations(self, delivery_ids: Sequence[int], *, kind: str, operator: str, reason: str) -> Acted:
        return await self._writer.run(_open_generations, delivery_ids, kind, operator, reason)

    async def discard(self, dead_letter_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        return await self._writer.run(_discard, dead_letter_ids, operator, reason)


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
