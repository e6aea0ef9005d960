"""What a list shows or an operation is about (`Filter`), what a list answers (`Page`), and how it looks (`look`)."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar, overload

from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.requests import RequestStatus
from sendonce.sql.steps import Row as SqlRow
from sendonce.sql.steps import Steps, one, records, rows

LAST = 2**63 - 1
# A list looks at so many rows in one call; first at a few, because most lists end there.
LOOK = 20_000
SIZES = (500, LOOK - 500)
# At fewer where each leads to others anywhere in their tables, or a token is computed of it.
DEARER = (500, 9_500)
# Where rows of a kind are found apart, they are looked at there if they are no more than this.
NARROW = 10_000
# So much of one event, delivery or message is told at once.
SHOWN_OF_ONE = 1_000

_ALL_TYPES, _FAMILY = "*", ".*"
# What is said to one list or one operation only, and not kept in the operations log.
_NOT_KEPT = ("status", "subject", "include_cancelled", "before", "limit")


class _Listed(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def created_at(self) -> datetime: ...


class _Bounds(Protocol):
    """From where on and how far a list looks, and how much it shows."""

    @property
    def before(self) -> int | None: ...
    @property
    def limit(self) -> int: ...
    @property
    def since(self) -> datetime | None: ...


Row = TypeVar("Row")
Listed = TypeVar("Listed", bound=_Listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Match everything that is set; each list and operation uses the fields that its rows have.

    `type` may be a family like order.*. `since` and `until` bound when a row was made: for dead letters, when the
    delivery was given up. Dead letters that a person cancelled match only with `include_cancelled` or their reason.
    An operation skips what may have arrived unless `even_if_sent`. A list shows at most `limit` rows, newest first,
    with ids below `before`.
    """

    status: DeliveryState | RequestStatus | None = None
    type: str | None = None
    destination: str | None = None
    tenant: str | None = None
    subject: str | None = None
    reason: ReasonClass | None = None
    since: datetime | None = None
    until: datetime | None = None
    include_cancelled: bool = False
    even_if_sent: bool = False
    before: int | None = None
    limit: int = 50

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the filter that an operation keeps."""
        kept = json.loads(text)
        for name in ("since", "until"):
            if name in kept:
                kept[name] = datetime.fromisoformat(kept[name])
        if "reason" in kept:
            kept["reason"] = ReasonClass(kept["reason"])
        return cls(**kept)

    def written(self) -> str:
        """Return the JSON that an operation keeps, without what is not set."""
        kept = {name: value for name, value in asdict(self).items() if value not in (None, False)}
        for name in _NOT_KEPT:
            kept.pop(name, None)
        for name in ("since", "until"):
            if name in kept:
                kept[name] = kept[name].astimezone(UTC).isoformat()
        return json.dumps(kept, ensure_ascii=False, sort_keys=True)

    @property
    def exact_type(self) -> str | None:
        return None if self.type == _ALL_TYPES or self.family else self.type

    @property
    def family(self) -> str | None:
        """Return what a type must begin with: order. for order.*."""
        return self.type[:-1] if self.type is not None and self.type.endswith(_FAMILY) else None

    @property
    def criteria(self) -> dict[str, object]:
        """Return the values that the queries compare with."""
        return {
            "status": None if self.status is None else self.status.value,
            "type": self.exact_type,
            "family": self.family,
            "destination": self.destination,
            "tenant": self.tenant,
            "reason": None if self.reason is None else self.reason.value,
            "since": self.since,
            "until": self.until,
        }


@dataclass(frozen=True, slots=True)
class Page(Sequence[Row], Generic[Row]):
    """The rows that match among those looked at: a list looks at a bounded number of rows in one call.

    `next_before`: go on with Filter(before=next_before); None at the end. `looked_back_to`: when the oldest row that
    was looked at was made; None at the end, where all rows were looked at.
    """

    rows: tuple[Row, ...] = ()
    next_before: int | None = None
    looked_back_to: datetime | None = None

    @property
    def is_end(self) -> bool:
        return self.next_before is None

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self.rows[index]


# Walks the ids below one, from the newest down: (below, so many).
Window: TypeAlias = Callable[[int, int], Steps[list[int]]]
# Reads the rows of these ids that match, at most so many.
Matching: TypeAlias = Callable[[list[int], int], Steps[list[Listed]]]


def look(
    wanted: _Bounds,
    window: Window,
    matching: Matching[Listed],
    made_at: str,
    *,
    sizes: Sequence[int] = (),
    spare: int = 1,
) -> Steps[Page[Listed]]:
    """Return a page of what matches, having looked at no more ids than `sizes` add up to.

    `made_at` names the query for when a row was made. `spare` rows more than the limit are looked for, so that the page
    knows whether it is the last one.
    """
    found: list[Listed] = []
    before = LAST if wanted.before is None else wanted.before
    oldest: datetime | None = None
    for size in sizes or SIZES:
        ids = yield from window(before, size)
        if ids:
            found += yield from matching(ids, wanted.limit + spare - len(found))
        if len(found) >= wanted.limit + spare:
            shown = tuple(found[: wanted.limit])
            return Page(shown, shown[-1].id, shown[-1].created_at)
        if len(ids) < size:
            return Page(tuple(found))
        before = ids[-1]
        oldest = yield from time_of(made_at, before)
        if wanted.since is not None and oldest is not None and oldest < wanted.since:
            return Page(tuple(found))
    return Page(tuple(found), before, oldest)


def tail(
    kind: Callable[..., Row], query: str, place: Callable[[Row], tuple[int, datetime]], limit: int, **values: object
) -> Steps[Page[Row]]:
    """Return a page of the newest rows of one thing, the oldest of them first.

    `place` tells a row's number, by which `query` walks down an index, and when it was made.
    """
    found = yield from records(kind, query, limit=limit + 1, **values)
    shown = tuple(found[:limit][::-1])
    return Page(shown, *place(shown[0])) if len(found) > limit else Page(shown)


def walk(query: str, **values: object) -> Window:
    """Walk down an index with this query."""

    def window(before: int, size: int) -> Steps[list[int]]:
        return ids_of((yield from rows(query, before=before, window=size, **values)))

    return window


def narrow(otherwise: str, *places: str, **values: object) -> Steps[Window]:
    """Walk what is found in these places, where that is little; else walk with the query for all there are."""
    ids: set[int] = set()
    for place in places:
        ids.update(ids_of((yield from rows(place, window=NARROW, **values))))
    return among(ids) if len(ids) < NARROW else walk(otherwise)


def among(ids: Iterable[int]) -> Window:
    """Walk down these ids."""
    newest_first = sorted(ids, reverse=True)

    def window(before: int, size: int) -> Steps[list[int]]:
        yield from ()
        return [each for each in newest_first if each < before][:size]

    return window


def time_of(query: str, row_id: int) -> Steps[datetime | None]:
    """Return when a row was made; None when it is gone."""
    made = yield from one(_Made, query, id=row_id)
    return None if made is None else made.created_at


def ids_of(found: Iterable[SqlRow]) -> list[int]:
    return [row[0] for row in found]


class _Made(NamedTuple):
    created_at: datetime
