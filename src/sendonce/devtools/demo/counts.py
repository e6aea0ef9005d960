"""What the receiver has counted of one side, by order. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sendonce.devtools.demo.plan import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How often, by order: `acted` upon, `refused`, `asked` about, `found` when asked, acted upon `after_asking`.

    `in_flight` requests have not ended, of which `unanswered` have arrived; `heard` answers found somebody there.
    """

    acted: Mapping[int, int] = field(default_factory=dict)
    refused: Mapping[int, int] = field(default_factory=dict)
    asked: Mapping[int, int] = field(default_factory=dict)
    found: Mapping[int, int] = field(default_factory=dict)
    after_asking: Mapping[int, int] = field(default_factory=dict)
    in_flight: int = 0
    unanswered: int = 0
    heard: int = 0

    @classmethod
    def of(cls, side: Side, received: Mapping[str, Any]) -> "Counts":
        """One side of what the receiver says it has received."""
        paths = dict(_by_order(side, received["paths"].items()))
        messages = dict(_by_order(side, ((each["path"], each) for each in received["messages"].values())))
        return cls(
            acted=_above_zero(paths, "accepted"),
            refused=_above_zero(paths, "refused"),
            asked=_above_zero(messages, "asked"),
            found=_above_zero(messages, "found"),
            after_asking=_above_zero(messages, "after_asking"),
            in_flight=sum(each["in_flight"] for each in paths.values()),
            unanswered=sum(each["unanswered"] for each in paths.values()),
            heard=sum(each["heard"] for each in paths.values()),
        )

    @property
    def seen(self) -> set[int]:
        """Every order that was acted upon or refused."""
        return {*self.acted, *self.refused}

    @property
    def doubled(self) -> set[int]:
        return {order for order, times in self.acted.items() if times > 1}


def _by_order(side: Side, counted: Iterable[tuple[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for path, each in counted:
        if path.startswith(side.path):
            yield int(path.removeprefix(side.path)), each


def _above_zero(counted: Mapping[int, Mapping[str, Any]], name: str) -> dict[int, int]:
    return {order: each[name] for order, each in counted.items() if each[name]}
