"""What a list shows or an operation is about (`Filter`), and what a list answers (`Page`)."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Generic, Self, TypeVar, overload

from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.requests import RequestStatus

Row = TypeVar("Row")

_ALL_TYPES, _FAMILY = "*", ".*"
# What is said to one list or one operation only, and not kept in the operations log.
_NOT_KEPT = ("status", "subject", "include_cancelled", "before", "limit")


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
        return None if self.type is None or self.type.endswith(_ALL_TYPES) else self.type

    @property
    def family(self) -> str | None:
        """Return what a type must begin with: order. for order.*."""
        return self.type[:-1] if self.type is not None and self.type.endswith(_FAMILY) else None


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
