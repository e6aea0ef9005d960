"""What the receiver has counted, as the demonstration reads it."""

from typing import Any

from sendonce.devtools.demo.accounts import Counts
from sendonce.devtools.demo.shop import (
    BEHAVIOURS,
    KILL_AT,
    ORDERS,
    REFUSED,
    ROLLED_BACK,
    SLOTS,
    SOME,
    TIMEOUT_SECONDS,
    WAVES,
    Mood,
    Side,
)
from sendonce.devtools.receive.behaviour import WELL, changed
from sendonce.devtools.receive.memory import Memory, Totals
from tests.demo.values import GOOD


def _received() -> Any:
    paths: dict[str, dict[str, int]] = {
        "/sendonce/1": {"accepted": 1, "heard": 1},
        "/sendonce/2": {"accepted": 1, "in_flight": 2, "unanswered": 1},
        "/sendonce/50": {"refused": 1, "heard": 1},
        "/naive/1": {"accepted": 2, "heard": 1},
    }
    zero = {name: 0 for name in Totals.__slots__}
    message = {"asked": 0, "found": 0, "after_asking": 0}
    messages = {
        "one": {**message, "path": "/sendonce/1", "asked": 2, "found": 1, "after_asking": 1},
        "two": {**message, "path": "/sendonce/2"},
        "never arrived": {**message, "path": "/deliveries/three", "asked": 1},
    }
    return {"paths": {path: {**zero, **each} for path, each in paths.items()}, "messages": messages}


def test_side_has_its_own_counts_by_order() -> None:
    ours, naive = (Counts.of(side, _received()) for side in Side)

    assert (ours.acted, ours.refused, ours.doubled) == ({1: 1, 2: 1}, {50: 1}, set())
    assert (naive.acted, naive.doubled) == ({1: 2}, {1})
    assert (ours.in_flight, ours.unanswered, ours.heard) == (2, 1, 2)
    assert ours.seen == {1, 2, 50}


def test_look_ups_are_counted_for_each_order() -> None:
    ours = Counts.of(Side.SENDONCE, _received())

    assert (ours.asked, ours.found, ours.after_asking) == ({1: 2}, {1: 1}, {1: 1})


def test_receiver_that_has_nothing_can_be_read() -> None:
    assert Counts.of(Side.NAIVE, Memory(keep=1).document()) == Counts()


def test_plan_is_what_is_announced() -> None:
    assert len(ORDERS) == 60
    assert len(ROLLED_BACK) == 5
    assert set(WAVES[2]) - ROLLED_BACK >= REFUSED
    assert 2 * SOME <= KILL_AT <= SLOTS
    assert not GOOD.doubled


def test_receiver_never_recognises_a_token_and_answers_while_somebody_waits() -> None:
    for mood in Mood:
        behaviour = changed(WELL, BEHAVIOURS[mood])
        seconds = sum(wait.seconds for wait in (behaviour.slow, behaviour.late) if wait is not None)
        assert not behaviour.deduplicate
        assert seconds < TIMEOUT_SECONDS
