"""Commits that this database has lost: noticed by a worker, put in doubt, over when all was asked; and its name."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sendonce.domain.attempts import Fence, Refusal, Witness
from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.sql.steps import Row
from sendonce.store.records import ENGINE, Acted, LossRow
from sendonce.store.sqlite.journal import log_operation
from sendonce.store.sqlite.lanes import Lane, Transaction
from sendonce.store.sqlite.rows import record
from sendonce.store.sqlite.times import stamp
from sendonce.store.waits import own_waits

STEP = 10_000
_REFUSALS = (Refusal.OTHER_INSTANCE, Refusal.COMMITS_LOST, Refusal.UNMARKED)


class Losses:
    """See `OrchestratorStore`."""

    _writer: Lane

    async def refusal(self, fence: Fence) -> Refusal | None:
        return await self._writer.run(refusal, fence)

    async def notice_loss(self, witness: Witness, *, wait: timedelta, noticed_by: str) -> LossRow | None:
        return await self._writer.run(_notice, witness, wait, noticed_by)

    async def mark_loss(self, limit: int) -> LossRow | None:
        return await self._writer.run(_mark, limit)

    async def end_loss(self) -> LossRow | None:
        return await self._writer.run(_end)

    async def disprove_loss(self, *, operator: str, reason: str) -> LossRow | None:
        loss = await self._writer.run(_disprove, operator, reason)
        # In steps: what is interrupted stays in doubt, and is asked about.
        while loss is not None and await self._writer.run(_undoubt, loss.id) > 0:
            continue
        return loss

    async def name_instance(self, name: str | None, *, operator: str, reason: str | None) -> Acted:
        return await self._writer.run(_name, name, operator, reason)


def refusal(transaction: Transaction, fence: Fence) -> Refusal | None:
    """Why a worker with this fence may claim nothing now."""
    witness = fence.witness
    values = {
        "instance": fence.instance,
        "seen_delivery": witness and witness.delivery_id,
        "seen_attempt": witness and witness.attempt,
        "seen_lease": witness and witness.lease_id,
    }
    [found] = transaction.fetch("fence", values)
    return next((refused for refused, is_so in zip(_REFUSALS, found, strict=True) if is_so), None)


def doubt_step(transaction: Transaction, step: Mapping[str, Any], *, is_exact: bool = False) -> int:
    """Put what is open in this step in doubt: how many. Left alone for the step's wait; for as long as its subscription
    says where that is longer, unless it `is_exact`."""
    policies = [] if is_exact else transaction.fetch("policies_in_step", step)
    return transaction.change("doubt", {**step, "waits": own_waits(policies, timedelta(seconds=step["wait"]))})


def _notice(transaction: Transaction, witness: Witness, wait: timedelta, noticed_by: str) -> LossRow | None:
    values = {
        "wait": wait.total_seconds(),
        "noticed_by": clean(noticed_by, MESSAGE_LENGTH),
        "at": stamp(witness.at),
        "event_id": witness.event_id,
    }
    return _loss(transaction.fetch("notice_loss", values) or transaction.fetch("noticed_since", {"at": values["at"]}))


def _mark(transaction: Transaction, limit: int) -> LossRow | None:
    for loss_id, upto, marked, wait in transaction.fetch("loss_to_mark"):
        last = transaction.fetch("last_of_step", {"after": marked, "upto": upto, "limit": limit})[0][0]
        step = {"after": marked, "last": upto if last is None else last, "wait": wait, "loss_id": loss_id}
        doubted = doubt_step(transaction, step)
        return _loss(
            transaction.fetch("loss_marked", {"loss_id": loss_id, "doubted": doubted, "marked_id": step["last"]})
        )
    return None


def _end(transaction: Transaction) -> LossRow | None:
    return _loss(transaction.fetch("end_loss", {"ended_by": ENGINE}))


def _disprove(transaction: Transaction, operator: str, reason: str) -> LossRow | None:
    loss = _loss(transaction.fetch("disprove_loss", {"ended_by": clean(operator, MESSAGE_LENGTH)}))
    if loss is not None:
        log_operation(transaction, "nothing_lost", operator, reason, (), subject=f"loss {loss.id}")
    return loss


def _undoubt(transaction: Transaction, loss_id: int) -> int:
    return transaction.change("undoubt", {"loss_id": loss_id, "limit": STEP})


def _name(transaction: Transaction, name: str | None, operator: str, reason: str | None) -> Acted:
    transaction.change("drop_instance" if name is None else "set_instance", {"name": name})
    subject = "unnamed" if name is None else name
    return log_operation(transaction, "instance", operator, reason, (), subject=subject)


def _loss(rows: list[Row]) -> LossRow | None:
    return record(LossRow, rows[0]) if rows else None
