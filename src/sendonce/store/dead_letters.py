"""Dead letters: what was given up, and what a person decides about it."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

from sendonce.domain.deliveries import ReasonClass
from sendonce.domain.destinations import place_of
from sendonce.sql.steps import Steps, one, records, rows
from sendonce.store.filters import LAST, Filter, Page, Window, ids_of, look, time_of
from sendonce.store.records import DeadLetterGroup, DeadLetterRow, GivenUp

_END = datetime(9999, 1, 1, tzinfo=UTC)


def dead_letters(wanted: Filter) -> Steps[Page[DeadLetterRow]]:
    """List the open dead letters."""

    def matching(ids: list[int], limit: int) -> Steps[list[DeadLetterRow]]:
        return records(DeadLetterRow, "dead_letter_rows", ids=ids, limit=limit, **wanted.criteria)

    return (yield from look(wanted, _window_of(wanted), matching, "dead_letter_at"))


def dead_letter_summary(wanted: Filter) -> Steps[Page[DeadLetterGroup]]:
    """Count the open dead letters by reason, error code and host, the most first."""
    counted: list[GivenUp] = []

    def matching(ids: list[int], _: int) -> Steps[list[DeadLetterRow]]:
        counted.extend((yield from records(GivenUp, "given_up", ids=ids, **wanted.criteria)))
        return []

    looked = yield from look(wanted, _window_of(wanted), matching, "dead_letter_at")
    return Page(tuple(_grouped(counted)[: wanted.limit]), looked.next_before, looked.looked_back_to)


def dead_letter(dead_letter_id: int) -> Steps[DeadLetterRow | None]:
    """Return one dead letter, open or closed; None when there is none."""
    return one(DeadLetterRow, "dead_letter_rows", ids=[dead_letter_id], limit=1, **Filter().criteria)


def dead_letter_of(delivery_id: int) -> Steps[DeadLetterRow | None]:
    """Return the dead letter of a delivery; None when it has none."""
    found = yield from rows("dead_letter_id_of", delivery_id=delivery_id)
    return (yield from dead_letter(found[0][0])) if found else None


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
    groups: defaultdict[tuple[ReasonClass, str | None, str], list[GivenUp]] = defaultdict(list)
    for each in counted:
        groups[each.reason, each.error_code, place_of(each.address)].append(each)
    found = [
        DeadLetterGroup(
            reason=reason,
            error_code=code,
            host=host,
            count=sum(each.amount for each in group),
            oldest_at=min(each.oldest_at for each in group),
            newest_at=max(each.newest_at for each in group),
        )
        for (reason, code, host), group in groups.items()
    ]
    return sorted(found, key=lambda each: (-each.count, each.reason, each.error_code or "", each.host))
