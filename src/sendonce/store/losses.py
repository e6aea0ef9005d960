"""Commits that a database has lost: noticed by a worker, put in doubt, over when all was asked; and its name."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from sendonce.domain.attempts import Fence, Refusal, Witness
from sendonce.domain.decide import own_doubt_wait
from sendonce.sql.steps import Steps, one, rows
from sendonce.store.operations_log import log, said
from sendonce.store.records import ENGINE, Acted, LossRow

STEP = 10_000


class _Loss(NamedTuple):
    id: int
    upto_id: int
    marked_id: int
    wait: float


def refusal(fence: Fence) -> Steps[Refusal | None]:
    """Return why a worker with this fence may claim nothing now."""
    [(refused,)] = yield from rows("fence", **fence_values(fence))
    return None if refused is None else Refusal(refused)


def fence_values(fence: Fence) -> dict[str, object]:
    """Return a fence as the parameters of the claiming statements."""
    witness = fence.witness
    return {
        "instance": fence.instance,
        "seen_delivery": witness and witness.delivery_id,
        "seen_attempt": witness and witness.attempt,
        "seen_lease": witness and witness.lease_id,
    }


def notice_loss(witness: Witness, *, wait: timedelta, noticed_by: str) -> Steps[LossRow | None]:
    """Write down that this database has lost commits, or return what was written down since the witness.

    What is recorded now must be asked about before it is sent, and not before `wait` is over, as with `doubt`. None
    when the witness is not missing: retention has taken it.
    """
    noticed = yield from one(
        LossRow,
        "notice_loss",
        wait=wait.total_seconds(),
        noticed_by=said(noticed_by),
        at=witness.at,
        event_id=witness.event_id,
    )
    return noticed or (yield from one(LossRow, "noticed_since", at=witness.at))


def mark_loss(limit: int) -> Steps[LossRow | None]:
    """Put up to `limit` more of the deliveries of a loss in doubt; None when there are no more."""
    loss = yield from one(_Loss, "loss_to_mark")
    if loss is None:
        return None
    doubted, last = yield from doubt_step(
        loss.marked_id, loss.upto_id, limit, wait=timedelta(seconds=loss.wait), loss_id=loss.id
    )
    marked_id = loss.upto_id if last is None else last
    return (yield from one(LossRow, "loss_marked", loss_id=loss.id, doubted=doubted, marked_id=marked_id))


def end_loss() -> Steps[LossRow | None]:
    """End the loss whose deliveries all have been asked about, or sent after their wait; None when there is none."""
    return (yield from one(LossRow, "end_loss", ended_by=ENGINE))


def disprove_loss(*, operator: str, reason: str) -> Steps[LossRow | None]:
    """End the open loss because a person says that nothing was lost; None when there is none."""
    loss = yield from one(LossRow, "disprove_loss", ended_by=said(operator))
    if loss is not None:
        yield from log("nothing_lost", operator, reason, (), subject=f"loss {loss.id}")
    return loss


def undoubt(loss_id: int) -> Steps[bool]:
    """End a bounded step of the doubt that a loss alone has raised; True when there may be more."""
    return bool((yield from rows("undoubt", loss_id=loss_id, limit=STEP)))


def name_instance(name: str | None, *, operator: str, reason: str | None) -> Steps[Acted]:
    """Give the database a name, or take it away."""
    yield from rows("drop_instance" if name is None else "set_instance", name=name)
    subject = "unnamed" if name is None else name
    return (yield from log("instance", operator, reason, (), subject=subject))


def doubt_step(
    after: int, upto: int, limit: int, *, wait: timedelta, loss_id: int | None = None, is_exact: bool = False
) -> Steps[tuple[int, int | None]]:
    """Put up to `limit` open deliveries in doubt: how many were, and the last id looked at; None past the last one.

    They are left alone for `wait`, and for as long as their subscription says where that is longer, unless it
    `is_exact`.
    """
    [(last,)] = yield from rows("last_of_step", after=after, upto=upto, limit=limit)
    if last is None:
        return 0, None
    step = {"after": after, "last": last, "limit": limit}
    policies = [] if is_exact else (yield from rows("policies_in_step", **step))
    waits = own_waits(policies, wait)
    doubted = yield from rows("doubt", **step, wait=wait.total_seconds(), waits=waits, loss_id=loss_id)
    return len(doubted), last


def own_waits(policies: Sequence[Sequence[object]], wait: timedelta) -> str:
    """Return which of these subscriptions (id, policy) wait longer than `wait`: seconds by id, as JSON."""
    each = {text: own_doubt_wait(text) for text in {str(policy) for _, policy in policies}}
    longer = {str(one): each[str(policy)].total_seconds() for one, policy in policies if each[str(policy)] > wait}
    return json.dumps(longer)
