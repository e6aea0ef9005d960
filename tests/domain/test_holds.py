"""What holds a delivery back, and in which order that is looked at."""

import pytest

from sendonce.domain.holds import Candidate, Hold, Holders, HoldKind, parked, sendable
from sendonce.domain.limits import NO_LIMITS, Limits

ONE = Candidate(1, "subscription:7", "https://a.test/x", "acme", 7, "active", False, 5.0)
ALL = Holders((("channel", "https"), ("tenant", "acme")), frozenset({"destination:subscription:7", "place:a.test"}))


@pytest.mark.parametrize("room", ["subscription:7", "stop:channel:https", "destination:https://a.test/x", "rate:7"])
def test_hold_is_spelled_in_one_way(room: str) -> None:
    assert Hold.of(room).room == room


@pytest.mark.parametrize("room", ["", "nobody", "shelf:7"])
def test_hold_of_something_else_is_refused(room: str) -> None:
    with pytest.raises(ValueError, match="HoldKind"):
        Hold.of(room)


def test_hold_that_is_looked_for_first_is_the_one_that_counts() -> None:
    found = [
        ALL.back(ONE._replace(subscription_state="paused"), None),
        ALL.back(ONE, None),
        ALL._replace(stops=()).back(ONE, None),
        ALL._replace(stops=(), breakers=frozenset({"place:a.test"})).back(ONE, None),
        Holders().back(ONE, None),
        Holders().back(ONE._replace(rate=None), None),
    ]

    assert [each and each.room for each in found] == [
        "subscription:7",
        "stop:channel:https",
        "destination:subscription:7",
        "place:a.test",
        "rate:7",
        None,
    ]


def test_hold_of_the_room_itself_does_not_hold_what_is_claimed_out_of_it() -> None:
    breakers = ALL._replace(stops=())

    assert breakers.back(ONE, "destination:subscription:7") == Hold(HoldKind.PLACE, "a.test")
    assert Holders().back(ONE, "rate:7") is None
    assert Holders(breakers=frozenset({"place:a.test"})).back(ONE, "place:a.test") is None


def test_hold_that_a_delivery_waits_for_already_moves_it_nowhere() -> None:
    breakers = ALL._replace(stops=())

    assert parked(ONE, breakers, NO_LIMITS, "destination:subscription:7", is_old=True) is None
    assert parked(ONE, breakers, NO_LIMITS, "rate:7", is_old=True) == Hold(HoldKind.DESTINATION, "subscription:7")


def test_hold_by_a_limit_lets_through_what_is_left() -> None:
    three = [ONE._replace(delivery_id=number, rate=None) for number in range(3)]

    assert sendable(three, Holders(), Limits(left={"subscription:7": 2}), None) == [0, 1]
    assert sendable(three, Holders(), Limits(left_at_place={"a.test": 1}), None) == [0]
