"""The accounts of the demonstration: every order in one place, and every broken promise told."""

from dataclasses import replace
from typing import Any

import pytest

from sendonce.devtools.demo.accounts import Counts, Killed, broken_promises, tally
from sendonce.domain.deliveries import DeliveryState
from tests.demo.values import COMMITTED, GOOD, KILLED, POOR, a_fate, accounts


def test_good_run_breaks_no_promise() -> None:
    assert broken_promises(accounts()) == []


def test_accounts_of_the_naive_outbox_break_no_promise_of_ours() -> None:
    terrible = accounts(naive=Counts(acted={7: 9}))

    assert broken_promises(terrible) == []


@pytest.mark.parametrize("counts", [GOOD, POOR, Counts(), Counts(acted={50: 1, 1: 3}, refused={50: 1, 2: 1})])
def test_committed_order_is_counted_once(counts: Counts) -> None:
    told = tally(counts, COMMITTED, KILLED)

    parts = [told.once, told.doubled, told.refused, told.lost]
    assert frozenset().union(*parts) == COMMITTED
    assert sum(len(part) for part in parts) == len(COMMITTED)


def test_refused_order_that_was_acted_upon_after_all_is_not_refused() -> None:
    told = tally(Counts(acted={50: 1}, refused={50: 1}), {50}, KILLED)

    assert told.once == {50}
    assert not told.refused


def _with_fate(order: int, **changed: Any) -> dict[str, Any]:
    return {"fates": tuple(a_fate(each, **(changed if each == order else {})) for each in sorted(COMMITTED))}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"orders": COMMITTED | {7}}, "rolled back, but the order is there: order 7"),
        ({"recorded": COMMITTED | {7, 19}}, "rolled back, but the event is there: order 7, 19"),
        ({"ours": replace(GOOD, acted={**GOOD.acted, 7: 1})}, "rolled back, but the receiver was told: order 7"),
        ({"orders": COMMITTED - {8}}, "committed, but the order is gone: order 8"),
        ({"recorded": COMMITTED - {8}}, "committed, but the event is gone: order 8"),
        (_with_fate(8, state=DeliveryState.PENDING_RETRY), "neither delivered nor given up: order 8"),
        ({"fates": tuple(a_fate(each) for each in [*COMMITTED, 8])}, "more than one delivery: order 8"),
        ({"ours": replace(GOOD, acted={**GOOD.acted, 8: 2})}, "doubled: order 8"),
        ({"ours": replace(GOOD, acted={n: 1 for n in GOOD.acted if n != 8})}, "lost: order 8"),
        (
            {"ours": replace(GOOD, acted={n: 1 for n in GOOD.acted if n != 8})},
            "completed, but the receiver did not act on it: order 8",
        ),
        (
            _with_fate(8, state=DeliveryState.DEAD_LETTERED, reason="exhausted, no_answer"),
            "acted upon, but not completed: order 8",
        ),
        (
            _with_fate(8, state=DeliveryState.DEAD_LETTERED, reason="exhausted, no_answer"),
            "given up, but the receiver did not refuse it: order 8",
        ),
        (_with_fate(50, reason=""), "given up without a reason: order 50"),
        (_with_fate(21, outcomes=("Delivered",)), "asked about, but never in doubt: order 21"),
        (_with_fate(8, outcomes=("Unknown", "Delivered")), "in doubt, but the receiver was not asked: order 8"),
        ({"killed": Killed(0, 0)}, "worker 1 was not killed in the middle of its work"),
        ({"killed": Killed(12, 0)}, "worker 1 was not killed in the middle of its work"),
        ({"killed": Killed(12, 12)}, "worker 1 was not killed in the middle of its work"),
    ],
)
def test_accounts_tell_of_a_broken_promise(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in broken_promises(accounts(**changes))
