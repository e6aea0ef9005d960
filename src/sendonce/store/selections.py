"""What an operation by filter is about: which dead letters or deliveries, as it is kept in the operations log."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Self

from sendonce.domain.deliveries import ReasonClass

_ALL_TYPES, _FAMILY = "*", ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What matches everything that is set. `type` may be a family like order.*; `since` and `until` are about when a
    dead letter was given up, or when a delivery was made. Without `even_if_sent`, what may have arrived is skipped."""

    type: str | None = None
    destination: str | None = None
    tenant: str | None = None
    reason: ReasonClass | None = None
    since: datetime | None = None
    until: datetime | None = None
    even_if_sent: bool = False

    @classmethod
    def read(cls, text: str) -> Self:
        """The selection that an operation keeps."""
        kept = json.loads(text)
        for name in ("since", "until"):
            if name in kept:
                kept[name] = datetime.fromisoformat(kept[name])
        if "reason" in kept:
            kept["reason"] = ReasonClass(kept["reason"])
        return cls(**kept)

    def written(self) -> str:
        """As JSON, without what is not set."""
        kept = {name: value for name, value in asdict(self).items() if value not in (None, False)}
        for name in ("since", "until"):
            if name in kept:
                kept[name] = kept[name].astimezone(UTC).isoformat()
        return json.dumps(kept, ensure_ascii=False, sort_keys=True)

    @property
    def exact_type(self) -> str | None:
        return None if self.type is None or self.type.endswith(_ALL_TYPES) else self.type

    @property
    def family(self) -> str | None:
        """order. for order.*: what a type begins with."""
        return self.type[:-1] if self.type is not None and self.type.endswith(_FAMILY) else None


class Found(NamedTuple):
    """One that matches: its place on the walk, its delivery, and whether that may have arrived already."""

    id: int
    nth: int
    delivery_id: int
    may_have_arrived: bool


class Window(NamedTuple):
    """A bounded step of the walk: up to which id was looked, at how many, and what matched. None: there is no more."""

    last_id: int | None
    looked: int
    found: tuple[Found, ...]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], most: int) -> Self:
        """From the rows of a window query. With `most` found, the walk has come no further than to the last of them."""
        found = tuple(Found(row[2], row[3], row[4], bool(row[5])) for row in rows if row[2] is not None)
        if len(found) == most:
            return cls(found[-1].id, found[-1].nth, found)
        return cls(rows[0][0], rows[0][1], found)
