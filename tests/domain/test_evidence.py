"""What late evidence does to a delivery: one table, every line of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.evidence import Effect, Evidence, Move, Target, Told, told, weigh
from sendonce.errors import ConfigError

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
P, I, R, C, D = DeliveryState  # noqa: E741


def target(status: DeliveryState, **changes: Any) -> Target:
    whole: dict[str, Any] = {
        "id": 1, "status": status, "in_doubt": False, "is_proven": False, "notification_id": None, "attempt_count": 1,
        "created_at": NOW, "is_replay": False, "letter_id": None, "closed_as": None,
    }  # fmt: skip
    return Target(**{**whole, **changes})


def said(outcome: Any, **changes: Any) -> Evidence:
    return Evidence(**{"source": "mail log", "outcome": outcome, "token": "a", **changes})


OPEN_LETTER = {"in_doubt": True, "letter_id": 3}


@pytest.mark.parametrize(
    ("of", "delivered", "refused"),
    [
        (target(P), (Effect.SETTLED, Move.PROVE), (Effect.SETTLED, Move.GIVE_UP)),
        (target(R, in_doubt=True), (Effect.SETTLED, Move.PROVE), (Effect.SETTLED, Move.GIVE_UP)),
        (target(R, is_proven=True), (Effect.KNOWN, None), (Effect.CONTRADICTS, None)),
        (target(I), (Effect.IN_FLIGHT, None), (Effect.IN_FLIGHT, None)),
        (target(C), (Effect.KNOWN, None), (Effect.CONTRADICTS, None)),
        (target(D), (Effect.CONTRADICTS, None), (Effect.KNOWN, None)),
        (target(D, **OPEN_LETTER), (Effect.SETTLED, Move.ATTEST), (Effect.NOTED, None)),
        (target(D, closed_as="discarded", **OPEN_LETTER), (Effect.NOTED, None), (Effect.NOTED, None)),
        (target(D, in_doubt=True), (Effect.NOTED, None), (Effect.NOTED, None)),
    ],
)  # fmt: skip
def test_evidence_settles_what_waits_and_is_compared_with_what_has_ended(
    of: Target, delivered: object, refused: object
) -> None:
    assert weigh(of, said(Told.DELIVERED)) == delivered
    assert weigh(of, said(Told.REFUSED)) == refused


def test_evidence_with_another_id_of_a_completed_delivery_contradicts() -> None:
    of = target(C, notification_id="n-1")

    assert weigh(of, said(Told.DELIVERED, notification_id="n-1"))[0] is Effect.KNOWN
    assert weigh(of, said(Told.DELIVERED, notification_id="n-2"))[0] is Effect.CONTRADICTS


def test_evidence_about_what_was_delivered_before_a_replay_does_not_stop_the_replay() -> None:
    of, second = target(P, is_replay=True), timedelta(seconds=1)

    assert weigh(of, said(Told.DELIVERED)) == (Effect.KNOWN, None)
    assert weigh(of, said(Told.DELIVERED, occurred_at=NOW - second)) == (Effect.KNOWN, None)
    assert weigh(of, said(Told.DELIVERED, occurred_at=NOW + second)) == (Effect.SETTLED, Move.PROVE)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"source": " "}, "the source of evidence is a name"),
        ({"source": "a" * 201}, "the source of evidence is a name"),
        ({"token": None}, "needs a token or a notification id"),
        ({"token": "a" * 501}, "the token of evidence is 1 to 500 bytes"),
        ({"reference": ""}, "the reference of evidence is 1 to 500 bytes"),
        ({"outcome": "Unknown"}, "Delivered or Refused"),
        ({"occurred_at": datetime(2026, 1, 1)}, "needs a time zone"),  # noqa: DTZ001
    ],
)
def test_evidence_that_says_nothing_sure_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        said(**{"outcome": Told.DELIVERED, **changes})


def test_outcome_of_evidence_is_read_in_any_case() -> None:
    assert [told(each) for each in (" delivered ", "REFUSED", Told.REFUSED)] == [Told.DELIVERED, *[Told.REFUSED] * 2]
