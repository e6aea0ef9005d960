from datetime import timedelta

import pytest

from sendonce.domain.attempts import (
    AttemptState,
    Report,
    closing_state,
    error_of,
    notification_id_of,
    resolve,
)
from sendonce.domain.deliveries import Delivery, DeliveryId
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Outcome, Refused, Unknown
from sendonce.domain.policies import DEFAULT_POLICY, IfUnsure, next_delay, spread_of
from tests.domain.values import a_claim


@pytest.mark.parametrize(
    ("outcome", "state", "error", "notification_id"),
    [
        (Delivered("n-1"), AttemptState.COMPLETED, (None, None), "n-1"),
        (Delivered(), AttemptState.COMPLETED, (None, None), None),
        (Accepted("n-2"), AttemptState.COMPLETED, (None, None), "n-2"),
        (Refused("410", "gone"), AttemptState.FAILED, ("410", "gone"), None),
        (Failed("503"), AttemptState.FAILED, ("503", None), None),
        (Unknown("timeout", "no answer"), AttemptState.FAILED, ("timeout", "no answer"), None),
        (Deferred("busy"), AttemptState.FAILED, ("busy", None), None),
    ],
)
def test_outcome_closes_its_attempt(
    outcome: Outcome, state: AttemptState, error: tuple[str | None, str | None], notification_id: str | None
) -> None:
    assert closing_state(outcome) is state
    assert error_of(outcome) == error
    assert notification_id_of(outcome) == notification_id


def test_claim_tells_decide_what_it_needs() -> None:
    claim = a_claim(attempt_count=4, deferred_count=2, in_doubt=True, seconds_left=1.5, if_unsure="hold")

    assert claim.delivery(in_doubt=False, can_look_up=True) == Delivery(
        id=DeliveryId(7),
        attempt_count=4,
        deferred_count=2,
        in_doubt=False,
        can_look_up=True,
        time_left=timedelta(seconds=1.5),
        if_unsure=IfUnsure.HOLD,
    )


@pytest.mark.parametrize(("cleared", "in_doubt"), [(False, True), (True, False)])
def test_answered_look_up_clears_doubt_before_the_decision(cleared: bool, in_doubt: bool) -> None:
    report = Report(a_claim(in_doubt=True, attempt_count=2), 5, Failed("503"), cleared)

    result = resolve(report, DEFAULT_POLICY, can_look_up=True)

    assert result.report is report
    assert result.decision.in_doubt is in_doubt
    assert result.decision.delay == next_delay(DEFAULT_POLICY, 3, spread_of(7, 1))


@pytest.mark.parametrize("cleared", [False, True])
def test_claim_without_doubt_is_decided_without_doubt(cleared: bool) -> None:
    report = Report(a_claim(in_doubt=False, attempt_count=2), 5, Failed("503"), cleared)

    result = resolve(report, DEFAULT_POLICY, can_look_up=False)

    assert result.decision.in_doubt is False
    assert result.doubt is None


def test_claim_without_deadline_and_without_wish_says_so() -> None:
    delivery = a_claim().delivery(in_doubt=True, can_look_up=None)

    assert delivery == Delivery(id=DeliveryId(7), in_doubt=True, can_look_up=None)
    assert delivery.time_left is None
    assert delivery.if_unsure is None
