"""Late evidence: found what it is about, weighed, and written with what it does, in one transaction."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sendonce.domain.evidence import Effect, Evidence, Move, Target, weigh
from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.sql.steps import Steps, one, rows
from sendonce.store.deliveries import namespace
from sendonce.store.filters import LAST, LOOK, SHOWN_OF_ONE, Page, ids_of, tail
from sendonce.store.operations_log import log, said
from sendonce.store.reconciliation import attest
from sendonce.store.records import EvidenceRow

# Where deliveries are looked for, in this order: what may have been sent is what evidence is for.
PLACES = ("doubtful_window", "delivery_window")
BY_TOKEN, BY_NOTIFICATION = "token", "notification_id"


class Sought(NamedTuple):
    """Deliveries that were found, by token or id; and where to look on: None at the end of this place."""

    found: Mapping[str, int]
    before: int | None


class Weighed(NamedTuple):
    """What evidence did, and to which delivery. `is_repeat`: it had come in before."""

    effect: Effect
    delivery_id: int | None = None
    is_repeat: bool = False


def seek_deliveries(by: str, wanted: Collection[str], place: str, *, before: int | None = None) -> Steps[Sought]:
    """Look through one bounded step of a place for the newest deliveries with these tokens, or other side's ids."""
    ids = ids_of((yield from rows(place, before=LAST if before is None else before, window=LOOK)))
    found: Sequence[tuple[object, ...]] = ()
    if ids and by == BY_TOKEN:
        name = yield from namespace()
        found = yield from rows("deliveries_of_tokens", ids=ids, namespace=name, tokens=list(wanted))
    elif ids:
        found = yield from rows("deliveries_of_notifications", ids=ids, notification_ids=list(wanted))
    newest: dict[str, int] = {}
    for delivery_id, key in found:
        newest.setdefault(str(key), int(str(delivery_id)))
    return Sought(newest, ids[-1] if len(ids) == LOOK else None)


def add_evidence(delivery_id: int, evidence: Evidence, *, operator: str) -> Steps[Weighed]:
    """Write evidence about a delivery with what it does to its newest generation. The same evidence counts once."""
    target = yield from _target(delivery_id)
    if target is None:
        return Weighed(Effect.UNMATCHED)
    yield from rows("lock_deliveries", delivery_ids=[target.id])
    target = (yield from _target(delivery_id)) or target
    if known := (yield from _known(target, evidence)):
        return known
    effect, move = weigh(target, evidence)
    if effect is Effect.IN_FLIGHT:
        return Weighed(effect, target.id)
    settled_id = yield from _moved(target, evidence, move, operator)
    if move in (Move.PROVE, Move.GIVE_UP):  # who attests is written down by that
        yield from log("evidence", operator, _sentence(evidence), (target.id,), subject="delivery")
    if effect in (Effect.CONTRADICTS, Effect.NOTED):
        yield from _found(target, evidence, effect)
    yield from rows(
        "add_evidence",
        occurred_at=evidence.occurred_at,
        delivery_id=settled_id,
        attempt=target.attempt_count or None,
        source=evidence.source,
        outcome=evidence.outcome.value,
        token=evidence.token,
        notification_id=evidence.notification_id,
        reference=evidence.reference,
        effect=effect.value,
        operator=said(operator),
        details=None if evidence.details is None else clean(evidence.details, MESSAGE_LENGTH),
    )
    return Weighed(effect, settled_id)


def preview_evidence(delivery_id: int, evidence: Evidence) -> Steps[Weighed]:
    """Say what evidence would do; nothing is written."""
    target = yield from _target(delivery_id)
    if target is None:
        return Weighed(Effect.UNMATCHED)
    if known := (yield from _known(target, evidence)):
        return known
    return Weighed(weigh(target, evidence)[0], target.id)


def evidence_of(delivery_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE) -> Steps[Page[EvidenceRow]]:
    """Return the newest of what came in later about a delivery, the oldest of it first."""
    values = {"delivery_id": delivery_id, "before": LAST if before is None else before}
    return tail(EvidenceRow, "evidence_of", lambda each: (each.id, each.created_at), limit, **values)


def _target(delivery_id: int) -> Steps[Target | None]:
    return one(Target, "evidence_target", delivery_id=delivery_id)


def _known(target: Target, evidence: Evidence) -> Steps[Weighed | None]:
    if evidence.reference is not None:
        found = yield from rows("evidence_with_reference", source=evidence.source, reference=evidence.reference)
    else:
        found = yield from rows(
            "same_evidence",
            delivery_id=target.id,
            source=evidence.source,
            outcome=evidence.outcome.value,
            notification_id=evidence.notification_id,
        )
    for delivery_id, effect in found:
        return Weighed(Effect(effect), delivery_id, is_repeat=True)
    return None


def _moved(target: Target, evidence: Evidence, move: Move | None, operator: str) -> Steps[int]:
    """Settle the delivery; the one that says so now."""
    match move:
        case Move.PROVE:
            yield from rows("prove_by_evidence", delivery_id=target.id, notification_id=evidence.notification_id)
        case Move.GIVE_UP:
            code = evidence.error_code or "refused"
            yield from rows("refuse_by_evidence", delivery_id=target.id, error_code=code)
            yield from rows(
                "bury_by_evidence", delivery_id=target.id, error_code=code, error_message=_sentence(evidence)
            )
            yield from rows("count_by_evidence")
        case Move.ATTEST:
            acted = yield from attest(
                [target.letter_id or 0],
                operator=operator,
                reason=_sentence(evidence),
                notification_id=evidence.notification_id,
            )
            return acted.ids[0]
        case None:
            pass
    return target.id


def _found(target: Target, evidence: Evidence, effect: Effect) -> Steps[None]:
    yield from rows(
        "add_late_result",
        delivery_id=target.id,
        attempt=target.attempt_count,
        kind="contradiction" if effect is Effect.CONTRADICTS else "evidence",
        outcome=evidence.outcome.value,
        error_code=evidence.error_code,
        notification_id=evidence.notification_id,
        details=f"{_sentence(evidence)} when the delivery was {target.status}",
    )


def _sentence(evidence: Evidence) -> str:
    why = f" ({evidence.error_code})" if evidence.error_code else ""
    return clean(f"{evidence.source} says that it was {evidence.outcome.value.lower()}{why}", MESSAGE_LENGTH)
