"""Commits that this database has lost: noticed by a worker, put in doubt, over when all was asked; and its name."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sendonce.domain.attempts import Fence, Refusal, Witness
from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.sql.steps import Row
from sendonce.store.postgres.journal import log_operation
from sendonce.store.postgres.lanes import Connection, Lanes, fetch
from sendonce.store.records import ENGINE, Acted, LossRow
from sendonce.store.waits import own_waits

STEP = 10_000


class Losses(Lanes):
    """See `OrchestratorStore`."""

    async def refusal(self, fence: Fence) -> Refusal | None:
        [(refused,)] = await self.claims.fetch("fence", fence_values(fence))
        return None if refused is None else Refusal(refused)

    async def notice_loss(self, witness: Witness, *, wait: timedelta, noticed_by: str) -> LossRow | None:
        values = {
            "wait": wait.total_seconds(),
            "noticed_by": clean(noticed_by, MESSAGE_LENGTH),
            "at": witness.at,
            "event_id": witness.event_id,
        }
        return _loss(
            await self.claims.fetch("notice_loss", values)
            or await self.claims.fetch("noticed_since", {"at": witness.at})
        )

    async def mark_loss(self, limit: int) -> LossRow | None:
        async with self.claims.transaction() as connection:
            for loss_id, upto, marked, wait in await fetch(connection, "loss_to_mark", {}):
                step = {"after": marked, "upto": upto, "limit": limit, "wait": wait, "loss_id": loss_id}
                doubted, last = await doubt_step(connection, step)
                values = {"loss_id": loss_id, "doubted": doubted, "marked_id": upto if last is None else last}
                return _loss(await fetch(connection, "loss_marked", values))
        return None

    async def end_loss(self) -> LossRow | None:
        return _loss(await self.leases.fetch("end_loss", {"ended_by": ENGINE}))

    async def disprove_loss(self, *, operator: str, reason: str) -> LossRow | None:
        async with self.results.transaction() as connection:
            ended_by = {"ended_by": clean(operator, MESSAGE_LENGTH)}
            loss = _loss(await fetch(connection, "disprove_loss", ended_by))
            if loss is None:
                return None
            await log_operation(connection, "nothing_lost", operator, reason, (), subject=f"loss {loss.id}")
        # In steps: what is interrupted stays in doubt, and is asked about.
        while (await self.results.fetch("undoubt", {"loss_id": loss.id, "limit": STEP}))[0][0]:
            continue
        return loss

    async def name_instance(self, name: str | None, *, operator: str, reason: str | None) -> Acted:
        async with self.people.transaction() as connection:
            await fetch(connection, "drop_instance" if name is None else "set_instance", {"name": name})
            subject = "unnamed" if name is None else name
            return await log_operation(connection, "instance", operator, reason, (), subject=subject)


async def doubt_step(
    connection: Connection, step: Mapping[str, Any], *, is_exact: bool = False
) -> tuple[int, int | None]:
    """Put what is open in this step in doubt: how many, and the last id looked at. Left alone for the step's wait; for
    as long as its subscription says where that is longer, unless it `is_exact`."""
    policies = [] if is_exact else await fetch(connection, "policies_in_step", step)
    waits = own_waits(policies, timedelta(seconds=step["wait"]))
    changed, last = (await fetch(connection, "doubt", {**step, "waits": waits}))[0]
    return changed, last


def fence_values(fence: Fence) -> dict[str, object]:
    """A fence as the parameters of the claiming statements."""
    witness = fence.witness
    return {
        "instance": fence.instance,
        "seen_delivery": witness and witness.delivery_id,
        "seen_attempt": witness and witness.attempt,
        "seen_lease": witness and witness.lease_id,
    }


def _loss(rows: list[Row]) -> LossRow | None:
    return loss_of(rows[0]) if rows else None


def loss_of(row: Row) -> LossRow:
    """A loss from the columns of its queries."""
    names = ("id", "noticed_at", "noticed_by", "ended_at", "ended_by", "upto_id", "marked_id", "doubted")
    return LossRow(**dict(zip(names, row, strict=True)))
