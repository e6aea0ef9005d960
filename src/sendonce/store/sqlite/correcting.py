"""A person corrects what was given up: new content or a new destination, as a delivery that goes instead."""

import json
from collections.abc import Sequence

from sendonce.domain.destinations import destination_hash
from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed
from sendonce.store.corrections import Correctable, check_correctable, not_again
from sendonce.store.records import Acted, CorrectionRow
from sendonce.store.sqlite.connection import OwnConnection, Transaction
from sendonce.store.sqlite.journal import log_operation
from sendonce.store.sqlite.rows import record


class Correcting:
    """See `OperatorStore` and `ReadStore`."""

    _writer: OwnConnection
    _reader: OwnConnection

    async def correct(
        self,
        delivery_id: int,
        *,
        content: str | None,
        destination: str | None,
        operator: str,
        reason: str,
        even_if_sent: bool = False,
    ) -> Acted:
        return await self._writer.run(_correct, delivery_id, content, destination, operator, reason, even_if_sent)

    async def corrections_of(self, delivery_id: int) -> list[CorrectionRow]:
        rows = await self._reader.run(Transaction.fetch, "corrections_of", {"delivery_id": delivery_id})
        return [record(CorrectionRow, row) for row in rows]

    async def content(self, delivery_id: int) -> str | None:
        rows = await self._reader.run(Transaction.fetch, "content_of", {"delivery_id": delivery_id})
        return rows[0][0] if rows else None


def _correct(
    transaction: Transaction,
    delivery_id: int,
    content: str | None,
    destination: str | None,
    operator: str,
    reason: str,
    even_if_sent: bool,
) -> Acted:
    values = {
        "delivery_id": delivery_id,
        "content": content,
        "destination": destination,
        "destination_hash": None if destination is None else destination_hash(destination),
    }
    rows = transaction.fetch("to_correct", values)
    found = Correctable._make(rows[0]) if rows else None
    old = check_correctable(delivery_id, found, content, moves=destination is not None, even_if_sent=even_if_sent)
    transaction.change("add_corrected_content", values)
    new_id = int(transaction.fetch("open_correction", values)[0][0])
    closing = {"delivery_id": delivery_id, "operator": clean(operator, MESSAGE_LENGTH)}
    transaction.fetch("close_corrected", closing)
    if destination is not None:
        moved = {"event_id": old.event_id, "old_hash": old.destination_hash}
        transaction.change("move_recipient", {**values, **moved})
    log = log_operation(transaction, "correct", operator, reason, (delivery_id,), subject="delivery")
    link = {"delivery_id": new_id, "replaces": delivery_id, "operation_id": log.operation_id}
    transaction.change("add_correction", link)
    return Acted(ids=(new_id,), operation_id=log.operation_id)


def check_not_corrected(transaction: Transaction, delivery_ids: Sequence[int]) -> None:
    """NotAllowed when another delivery goes instead of one of these, or none may because its person was erased."""
    for old, new in transaction.fetch("corrected_deliveries", {"delivery_ids": json.dumps(list(delivery_ids))}):
        raise NotAllowed(not_again(old, new))
