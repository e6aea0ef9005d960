"""Dead letters: what was given up, and what a person decides about it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.destinations import place_of, scheme_of
from sendonce.errors import NotAllowed, NotFound
from sendonce.sql.steps import Steps, one, records, rows
from sendonce.store.corrections import check_not_corrected
from sendonce.store.filters import DEARER, LAST, Filter, Page, Window, ids_of, look, time_of
from sendonce.store.operations_log import log, said
from sendonce.store.records import Acted, DeadLetterGroup, DeadLetterRow, GivenUp

_END = datetime(9999, 1, 1, tzinfo=UTC)
# A replay or a repair may be of what was never a dead letter.
_OF_LETTERS = frozenset({"requeue", "discard", "attest"})


def dead_letters(wanted: Filter) -> Steps[Page[DeadLetterRow]]:
    """List the open dead letters."""

    def matching(ids: list[int], limit: int) -> Steps[list[DeadLetterRow]]:
        return records(DeadLetterRow, "dead_letter_rows", ids=ids, limit=limit, **wanted.criteria)

    return (yield from look(wanted, _window_of(wanted), matching, "dead_letter_at", sizes=DEARER))


def dead_letter_summary(wanted: Filter) -> Steps[Page[DeadLetterGroup]]:
    """Count the open dead letters by reason, error code, type and host, the most first."""
    counted: list[GivenUp] = []

    def matching(ids: list[int], _: int) -> Steps[list[DeadLetterRow]]:
        counted.extend((yield from records(GivenUp, "given_up", ids=ids, **wanted.criteria)))
        return []

    looked = yield from look(wanted, _window_of(wanted), matching, "dead_letter_at", sizes=DEARER)
    return Page(tuple(_grouped(counted)[: wanted.limit]), looked.next_before, looked.looked_back_to)


def dead_letter(dead_letter_id: int) -> Steps[DeadLetterRow | None]:
    """Return one dead letter, open or closed; None when there is none."""
    return one(DeadLetterRow, "dead_letter_rows", ids=[dead_letter_id], limit=1, **Filter().criteria)


def dead_letter_of(delivery_id: int) -> Steps[DeadLetterRow | None]:
    """Return the dead letter of a delivery; None when it has none."""
    found = yield from rows("dead_letter_id_of", delivery_id=delivery_id)
    return (yield from dead_letter(found[0][0])) if found else None


def open_generations(delivery_ids: Sequence[int], *, kind: str, operator: str, reason: str) -> Steps[Acted]:
    """Open the next generation of finished deliveries (requeue, replay); the new ids, in the order given.

    The old rows stay as they are; an open dead letter of one is closed as requeued. NotFound or NotAllowed, and
    nothing written, when one of them does not exist, is not finished, or has a newer generation.
    """
    ids = list(dict.fromkeys(delivery_ids))
    yield from rows("lock_deliveries", delivery_ids=ids)
    yield from _check_finished(ids)
    yield from check_not_corrected(ids)
    closed = yield from rows("close_dead_letters_of", delivery_ids=ids, operator=said(operator))
    check_all_closed(kind, ids, ids_of(closed))
    opened = yield from open_next(ids, kind)
    # By now retention cannot take it away.
    for gone in ids_of((yield from rows("without_content", delivery_ids=opened))):
        old = ids[opened.index(gone)]
        raise NotAllowed(f"the content of delivery {old} is no longer kept, so it cannot be sent again")
    logged = yield from log(kind, operator, reason, ids, subject="delivery")
    return Acted(ids=tuple(opened), operation_id=logged.operation_id)


def open_next(delivery_ids: Sequence[int], kind: str) -> Steps[list[int]]:
    """Open the next generation of each of these; the new ids in their order, as they are given out in it."""
    return sorted(ids_of((yield from rows("open_generations", delivery_ids=list(delivery_ids), kind=kind))))


def discard(dead_letter_ids: Sequence[int], *, operator: str, reason: str) -> Steps[Acted]:
    """Close open dead letters as discarded. The deliveries stay as they are."""
    found = yield from rows("discard", dead_letter_ids=list(dead_letter_ids), operator=said(operator))
    ids = sorted(ids_of(found))
    check_all_closed("discard", dead_letter_ids, ids)
    return (yield from log("discard", operator, reason, ids, subject="dead letter"))


def check_all_closed(kind: str, wanted: Sequence[int], closed: Sequence[int]) -> None:
    """NotAllowed when one of these dead letters was not there to be closed any more: all of them or none."""
    if kind in _OF_LETTERS and len(closed) < len(set(wanted)):
        raise NotAllowed("one of these dead letters was closed by another person meanwhile; nothing was done")


def _check_finished(ids: Sequence[int]) -> Steps[None]:
    found = {row[0]: row[1:] for row in (yield from rows("newest_generations", delivery_ids=list(ids)))}
    for delivery_id in ids:
        if delivery_id not in found:
            raise NotFound(f"there is no delivery {delivery_id}")
        status, newest_id, generation = found[delivery_id]
        if newest_id != delivery_id:
            raise NotAllowed(f"delivery {delivery_id} has a newer generation: delivery {newest_id} ({generation})")
        if not DeliveryState(status).is_final:
            raise NotAllowed(f"delivery {delivery_id} is {status}; only a finished one can be opened again")


def _window_of(wanted: Filter) -> Window:
    """Walk down the open dead letters in the order in which they were given up."""
    is_with_cancelled = wanted.include_cancelled or wanted.reason is ReasonClass.CANCELLED
    query = "open_dead_letter_window" if is_with_cancelled else "waiting_dead_letter_window"

    def window(before: int, size: int) -> Steps[list[int]]:
        at = _END if before == LAST else (yield from time_of("dead_letter_at", before))
        if at is None:
            return []
        return ids_of((yield from rows(query, before_at=at, before_id=before, window=size)))

    return window


def _grouped(counted: Iterable[GivenUp]) -> list[DeadLetterGroup]:
    groups: defaultdict[tuple[ReasonClass, str | None, str, str], list[GivenUp]] = defaultdict(list)
    for each in counted:
        host = place_of(each.address) or scheme_of(each.address)
        groups[each.reason, each.error_code, each.type, host].append(each)
    found = [
        DeadLetterGroup(
            reason=reason,
            error_code=code,
            type=type,
            host=host,
            count=sum(each.amount for each in group),
            oldest_at=min(each.oldest_at for each in group),
            newest_at=max(each.newest_at for each in group),
        )
        for (reason, code, type, host), group in groups.items()
    ]
    return sorted(found, key=lambda each: (-each.count, each.reason, each.error_code or "", each.type, each.host))
