"""A person corrects what was given up: new content or a new destination, as a delivery that goes instead."""

from collections.abc import Sequence
from uuid import UUID

from sendonce.domain.destinations import destination_hash
from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed
from sendonce.store.corrections import Correctable, check_correctable, not_again
from sendonce.store.postgres.connection import Connection, Connections, fetch
from sendonce.store.postgres.journal import log_operation
from sendonce.store.records import Acted, CorrectionRow


class Correcting(Connections):
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
        """See OperatorStore."""
        values = {
            "delivery_id": delivery_id,
            "content": content,
            "destination": destination,
            "destination_hash": None if destination is None else UUID(bytes=destination_hash(destination)),
        }
        async with self.people.transaction() as connection:
            await fetch(connection, "lock_deliveries", {"delivery_ids": [delivery_id]})
            rows = await fetch(connection, "to_correct", values)
            found = Correctable._make(rows[0]) if rows else None
            old = check_correctable(
                delivery_id, found, content, moves=destination is not None, even_if_sent=even_if_sent
            )
            await fetch(connection, "add_corrected_content", values)
            new_id = int((await fetch(connection, "open_correction", values))[0][0])
            closing = {"delivery_id": delivery_id, "operator": clean(operator, MESSAGE_LENGTH)}
            if not await fetch(connection, "close_corrected", closing):
                raise NotAllowed(f"the dead letter of delivery {delivery_id} was closed by another person meanwhile")
            if destination is not None:
                moved = {"event_id": old.event_id, "old_hash": old.destination_hash}
                await fetch(connection, "move_recipient", {**values, **moved})
            log = await log_operation(connection, "correct", operator, reason, (delivery_id,), subject="delivery")
            link = {"delivery_id": new_id, "replaces": delivery_id, "operation_id": log.operation_id}
            await fetch(connection, "add_correction", link)
            return Acted(ids=(new_id,), operation_id=log.operation_id)

    async def corrections_of(self, delivery_id: int) -> list[CorrectionRow]:
        """See ReadStore."""
        rows = await self.people.fetch("corrections_of", {"delivery_id": delivery_id})
        return [CorrectionRow(**dict(zip(CorrectionRow.__dataclass_fields__, row, strict=True))) for row in rows]

    async def content(self, delivery_id: int) -> str | None:
        """See ReadStore."""
        rows = await self.people.fetch("content_of", {"delivery_id": delivery_id})
        return rows[0][0] if rows else None


async def check_not_corrected(connection: Connection, delivery_ids: Sequence[int]) -> None:
    """NotAllowed when another delivery goes instead of one of these, or none may because its person was erased."""
    for old, new in await fetch(connection, "corrected_deliveries", {"delivery_ids": list(delivery_ids)}):
        raise NotAllowed(not_again(old, new))
