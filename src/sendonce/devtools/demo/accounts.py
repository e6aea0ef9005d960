"""What the receiver has counted, what became of every order, and whether every promise holds. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sendonce.devtools.demo.observer import Fate
from sendonce.devtools.demo.shop import KILL_AT, SOME, Side
from sendonce.domain.deliveries import DeliveryState


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


class Killed(NamedTuple):
    """What a sender had in flight when it was killed, and how much of that had arrived."""

    in_flight: int
    arrived: int

    @property
    def is_in_the_middle(self) -> bool:
        return self.in_flight >= KILL_AT and self.arrived >= SOME and self.in_flight - self.arrived >= SOME


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Every committed order is in exactly one of the first four; `uninvited` were rolled back and came all the same.

    `asked` are look-ups, of which `found` found it; `after_asking` orders were acted upon after one that did not.
    """

    once: frozenset[int]
    doubled: frozenset[int]
    refused: frozenset[int]
    lost: frozenset[int]
    uninvited: frozenset[int]
    asked: int
    found: int
    after_asking: int
    killed: Killed


def tally(counts: Counts, committed: Collection[int], killed: Killed) -> Tally:
    """Sort the orders by what the receiver has seen of them."""
    orders, acted, doubled = frozenset(committed), frozenset(counts.acted), frozenset(counts.doubled)
    refused = frozenset(counts.refused) - acted
    return Tally(
        once=(acted - doubled) & orders,
        doubled=doubled & orders,
        refused=refused & orders,
        lost=orders - acted - refused,
        uninvited=frozenset(counts.seen) - orders,
        asked=sum(counts.asked.values()),
        found=sum(counts.found.values()),
        after_asking=sum(counts.after_asking.values()),
        killed=killed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """`orders` and `recorded` are what the database holds after it all: business rows, and events.

    `asked` and `found` are the orders that the receiver was asked about, and those it had.
    """

    planned: frozenset[int]
    rolled_back: frozenset[int]
    orders: frozenset[int]
    recorded: frozenset[int]
    fates: tuple[Fate, ...]
    asked: frozenset[int]
    found: frozenset[int]
    ours: Tally
    naive: Tally
    seconds: float

    @property
    def committed(self) -> frozenset[int]:
        return self.planned - self.rolled_back

    def in_state(self, state: DeliveryState) -> tuple[Fate, ...]:
        return tuple(fate for fate in self.fates if fate.state is state)


def broken_promises(accounts: Accounts) -> list[str]:
    """What does not hold, one sentence for each; nothing when all is well. The naive outbox has promised nothing."""
    broken = [_told(sentence, orders) for sentence, orders in _promises(accounts) if orders]
    if not accounts.ours.killed.is_in_the_middle:
        broken.append("worker 1 was not killed in the middle of its work")
    return broken


def _promises(accounts: Accounts) -> Iterator[tuple[str, Collection[int]]]:
    """Each promise as what would break it, and the orders that do."""
    ours, committed = accounts.ours, accounts.committed
    completed = {fate.order for fate in accounts.in_state(DeliveryState.COMPLETED)}
    given_up = {fate.order for fate in accounts.in_state(DeliveryState.DEAD_LETTERED)}
    in_doubt = {fate.order for fate in accounts.fates if fate.was_in_doubt}
    yield "rolled back, but the order is there", accounts.orders - committed
    yield "rolled back, but the event is there", accounts.recorded - committed
    yield "rolled back, but the receiver was told", ours.uninvited
    yield "committed, but the order is gone", committed - accounts.orders
    yield "committed, but the event is gone", committed - accounts.recorded
    yield "neither delivered nor given up", committed - completed - given_up
    yield "more than one delivery", _repeated([fate.order for fate in accounts.fates])
    yield "doubled", ours.doubled
    yield "lost", ours.lost
    yield "completed, but the receiver did not act on it", completed - ours.once - ours.doubled
    yield "acted upon, but not completed", ours.once - completed
    yield "given up, but the receiver did not refuse it", given_up - ours.refused
    yield "given up without a reason", {fate.order for fate in accounts.fates if fate.is_unexplained}
    yield "in doubt, but the receiver was not asked", in_doubt - accounts.asked
    yield "asked about, but never in doubt", accounts.asked - in_doubt


def _told(sentence: str, orders: Collection[int]) -> str:
    return f"{sentence}: order {', '.join(str(order) for order in sorted(orders))}"


def _repeated(orders: list[int]) -> set[int]:
    return {order for order in orders if orders.count(order) > 1}
