"""decide(): each line of its table, by example."""

from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from sendonce.domain.answers import HANDED_BACK, LEFT, MAY_COME_AT_ONCE, NAMES_BUSY, NOT_FOUND, TABLE
from sendonce.domain.decide import Decision, complete, dead_letter, decide, is_spent, wait
from sendonce.domain.deliveries import Delivery, DeliveryState, ReasonClass
from sendonce.domain.outcomes import (
    LEASE_EXPIRED,
    Accepted,
    Deferred,
    Delivered,
    Failed,
    Fault,
    Outcome,
    Refused,
    Unknown,
    is_our_own,
)
from sendonce.domain.policies import IfUnsure, Policy
from tests.domain.values import a_delivery

S, US = timedelta(seconds=1), timedelta(microseconds=1)
POLICY = Policy(
    max_attempts=3,
    first_delay=10 * S,
    longest_delay=100 * S,
    jitter=0,
    doubt_wait=30 * S,
    retry_after_cap=60 * S,
)
HOLD = IfUnsure.HOLD
FAILED, REFUSED, UNKNOWN = Failed("503"), Refused("410"), Unknown("timeout")
IN_DOUBT = dead_letter(ReasonClass.IN_DOUBT, in_doubt=True)
EXHAUSTED = dead_letter(ReasonClass.EXHAUSTED, in_doubt=True)


def decided(delivery: Delivery, outcome: Outcome, policy: Policy = POLICY) -> Decision:
    return decide(delivery, outcome, policy, spread=0)


@pytest.mark.parametrize(
    "delivery",
    [
        a_delivery(),
        a_delivery(in_doubt=True, can_look_up=True),
        a_delivery(attempt_count=99, time_left=-S),
        a_delivery(in_doubt=True, if_unsure=HOLD),
    ],
)
def test_W14_success_completes_whatever_was_before(delivery: Delivery) -> None:
    assert decided(delivery, Delivered("id-1")) == complete()
    assert complete() == Decision(DeliveryState.COMPLETED, in_doubt=False)


@pytest.mark.parametrize(
    ("attempts_before", "decision"),
    [
        (0, wait(10 * S, in_doubt=False)),
        (1, wait(20 * S, in_doubt=False)),
        (2, dead_letter(ReasonClass.EXHAUSTED, in_doubt=False)),
        (3, dead_letter(ReasonClass.EXHAUSTED, in_doubt=False)),
    ],
)
def test_W13_failure_waits_until_the_count_has_reached_the_limit(attempts_before: int, decision: Decision) -> None:
    assert decided(a_delivery(attempt_count=attempts_before), FAILED) == decision


@pytest.mark.parametrize(
    ("attempt_count", "deferred_count", "spent"), [(2, 0, False), (3, 0, True), (3, 1, False), (4, 1, True)]
)
def test_W9_limit_is_on_attempts_that_were_not_deferred(attempt_count: int, deferred_count: int, spent: bool) -> None:
    assert is_spent(attempt_count, deferred_count, POLICY) is spent


def test_backoff_is_not_lengthened_by_deferred_attempts() -> None:
    assert decided(a_delivery(attempt_count=5, deferred_count=4), FAILED) == wait(20 * S, in_doubt=False)


@pytest.mark.parametrize(
    ("asked", "delay"),
    [
        (None, 10 * S),
        (timedelta(0), 10 * S),
        (-5 * S, 10 * S),
        (5 * S, 10 * S),
        (40 * S, 40 * S),
        (timedelta(days=9), 60 * S),
    ],
)
def test_receiver_may_ask_for_a_longer_wait_up_to_the_cap(asked: timedelta | None, delay: timedelta) -> None:
    assert decided(a_delivery(), Failed("503", retry_after=asked)) == wait(delay, in_doubt=False)


@pytest.mark.parametrize(
    ("delivery", "decision"),
    [
        (a_delivery(), dead_letter(ReasonClass.REFUSED, in_doubt=False)),
        (a_delivery(in_doubt=True), dead_letter(ReasonClass.REFUSED, in_doubt=True)),
        (a_delivery(in_doubt=True, if_unsure=HOLD), IN_DOUBT),
        (a_delivery(in_doubt=True, can_look_up=True), wait(30 * S, in_doubt=True)),
        (a_delivery(in_doubt=True, can_look_up=None), wait(30 * S, in_doubt=True)),
        (a_delivery(attempt_count=9, in_doubt=True, can_look_up=True), wait(100 * S, in_doubt=True)),
    ],
)
def test_refusal_ends_it_but_doubt_is_asked_about_first(delivery: Delivery, decision: Decision) -> None:
    assert decided(delivery, REFUSED) == decision


@pytest.mark.parametrize(
    ("delivery", "decision"),
    [
        (a_delivery(in_doubt=True), wait(10 * S, in_doubt=True)),
        (a_delivery(in_doubt=True, if_unsure=HOLD), IN_DOUBT),
        (a_delivery(in_doubt=True, if_unsure=HOLD, can_look_up=True), wait(10 * S, in_doubt=True)),
        (a_delivery(in_doubt=True, attempt_count=1), wait(20 * S, in_doubt=True)),
        (a_delivery(in_doubt=True, attempt_count=2), EXHAUSTED),
        (a_delivery(in_doubt=True, attempt_count=2, if_unsure=HOLD), IN_DOUBT),
        (a_delivery(in_doubt=True, attempt_count=2, can_look_up=True), wait(40 * S, in_doubt=True)),
        (a_delivery(in_doubt=True, attempt_count=2, can_look_up=None), wait(40 * S, in_doubt=True)),
    ],
)
def test_sure_failure_does_not_clear_an_older_doubt(delivery: Delivery, decision: Decision) -> None:
    assert decided(delivery, FAILED) == decision


@pytest.mark.parametrize("outcome", [UNKNOWN, Accepted("id-1")])
@pytest.mark.parametrize(
    ("delivery", "decision"),
    [
        (a_delivery(), wait(10 * S, in_doubt=True)),
        (a_delivery(attempt_count=1), wait(20 * S, in_doubt=True)),
        (a_delivery(attempt_count=1, deferred_count=1), wait(10 * S, in_doubt=True)),
        (a_delivery(attempt_count=2), EXHAUSTED),
        (a_delivery(attempt_count=2, deferred_count=1), wait(20 * S, in_doubt=True)),
        (a_delivery(if_unsure=HOLD), IN_DOUBT),
        (a_delivery(attempt_count=2, if_unsure=HOLD), IN_DOUBT),
        (a_delivery(can_look_up=True), wait(30 * S, in_doubt=True, left_alone=30 * S)),
        (a_delivery(can_look_up=None), wait(30 * S, in_doubt=True, left_alone=30 * S)),
        (a_delivery(if_unsure=HOLD, can_look_up=True), wait(30 * S, in_doubt=True, left_alone=30 * S)),
        (a_delivery(if_unsure=HOLD, can_look_up=None), wait(30 * S, in_doubt=True, left_alone=30 * S)),
        (a_delivery(attempt_count=9, can_look_up=True), wait(100 * S, in_doubt=True, left_alone=30 * S)),
    ],
)
def test_unknown_outcome_waits_or_is_held(outcome: Outcome, delivery: Delivery, decision: Decision) -> None:
    assert decided(delivery, outcome) == decision


@pytest.mark.parametrize(
    ("doubt_wait", "in_doubt", "outcome", "delay"),
    [
        (15 * S, False, UNKNOWN, 15 * S),
        (15 * S, False, LEASE_EXPIRED, 40 * S),
        (15 * S, True, LEASE_EXPIRED, 80 * S),
        (90 * S, True, LEASE_EXPIRED, 90 * S),
        (15 * S, True, UNKNOWN, 15 * S),
    ],
)
def test_lost_lease_is_not_asked_about_before_its_send_must_be_over(
    doubt_wait: timedelta, in_doubt: bool, outcome: Outcome, delay: timedelta
) -> None:
    policy = replace(POLICY, timeout=40 * S, doubt_wait=doubt_wait)

    decision = decided(a_delivery(in_doubt=in_doubt, can_look_up=True), outcome, policy)

    assert decision == wait(delay, in_doubt=True, left_alone=delay)


@pytest.mark.parametrize("attempts_before", [0, 2, 9])
def test_lost_lease_of_the_last_attempt_waits_for_its_send(attempts_before: int) -> None:
    policy = replace(POLICY, timeout=200 * S, doubt_wait=15 * S)

    decision = decided(a_delivery(attempt_count=attempts_before, can_look_up=True), LEASE_EXPIRED, policy)

    assert decision == wait(200 * S, in_doubt=True, left_alone=200 * S)


@pytest.mark.parametrize(("in_doubt", "delay"), [(False, 40 * S), (True, 80 * S)])
def test_lost_lease_waits_for_its_send_where_nobody_can_be_asked(in_doubt: bool, delay: timedelta) -> None:
    policy = replace(POLICY, timeout=40 * S, doubt_wait=15 * S)

    assert decided(a_delivery(in_doubt=in_doubt), LEASE_EXPIRED, policy) == wait(delay, in_doubt=True, left_alone=delay)


@pytest.mark.parametrize(
    ("own", "general", "is_held"),
    [
        (None, IfUnsure.RESEND, False),
        (None, HOLD, True),
        (HOLD, IfUnsure.RESEND, True),
        (IfUnsure.RESEND, HOLD, False),
    ],
)
def test_if_unsure_of_the_event_goes_before_the_policy(own: IfUnsure | None, general: IfUnsure, is_held: bool) -> None:
    decision = decided(a_delivery(if_unsure=own), UNKNOWN, Policy(if_unsure=general))

    assert (decision.reason is ReasonClass.IN_DOUBT) is is_held


PUT_OFF, OWN = Deferred("http_503"), Deferred("no_secret", fault=Fault.OURS)


@pytest.mark.parametrize(
    ("again_in", "deferred_before", "delay"),
    [
        (None, 0, 10 * S),
        (None, 1, 20 * S),
        (timedelta(0), 0, 10 * S),
        (-5 * S, 0, 10 * S),
        (9 * S, 0, 10 * S),
        (11 * S, 0, 11 * S),
        (19 * S, 1, 20 * S),
        (21 * S, 1, 21 * S),
        (99 * S, 0, 99 * S),
        (101 * S, 0, 100 * S),
        (timedelta(days=9), 0, 100 * S),
    ],
)
@pytest.mark.parametrize("outcome", [PUT_OFF, OWN])
def test_W12_deferred_attempt_comes_at_its_time_and_never_sooner_than_the_backoff(
    outcome: Deferred, again_in: timedelta | None, deferred_before: int, delay: timedelta
) -> None:
    delivery = a_delivery(attempt_count=70, deferred_count=deferred_before)

    decision = decided(delivery, replace(outcome, again_in=again_in))

    assert decision == wait(delay, in_doubt=False, deferred=True, put_off=outcome is PUT_OFF)


@pytest.mark.parametrize("outcome", [HANDED_BACK, NOT_FOUND, LEFT, NAMES_BUSY])
@pytest.mark.parametrize(
    ("again_in", "delay"), [(timedelta(0), timedelta(0)), (-5 * S, timedelta(0)), (5 * S, 5 * S), (None, 40 * S)]
)
def test_delivery_that_nobody_has_put_off_may_come_at_once(
    outcome: Deferred, again_in: timedelta | None, delay: timedelta
) -> None:
    decision = decided(a_delivery(attempt_count=2, deferred_count=2), replace(outcome, again_in=again_in))

    assert decision == wait(delay, in_doubt=False, deferred=True)


DEFERRED = sorted(
    {row.outcome for rows in TABLE.values() for row in rows if isinstance(row.outcome, Deferred)}, key=str
)


@pytest.mark.parametrize("code", sorted(MAY_COME_AT_ONCE))
def test_own_channel_that_uses_one_of_our_codes_makes_no_hot_loop(code: str) -> None:
    decision = decided(a_delivery(deferred_count=1), Deferred(code, again_in=timedelta(0)))

    assert decision.delay == 20 * S


@pytest.mark.parametrize("outcome", DEFERRED, ids=lambda outcome: outcome.code)
def test_answers_of_the_table_make_no_hot_loop(outcome: Deferred) -> None:
    """But for what the engine itself hands back, everything waits at least as long as the backoff says."""
    delay = decided(a_delivery(deferred_count=1), outcome).delay

    assert delay is not None
    assert (delay >= 20 * S) is (outcome.again_in is None or outcome.code not in MAY_COME_AT_ONCE)


# 10 + 20 + 40 s is as long as the policy tries.
@pytest.mark.parametrize(
    ("put_off_for", "deferred_before", "is_over"),
    [(70 * S, 2, True), (70 * S - US, 2, False), (70 * S, 1, False), (timedelta(days=9), 1, False), (71 * S, 3, True)],
)
@pytest.mark.parametrize("in_doubt", [False, True])
def test_W12_receiver_puts_off_at_least_as_long_and_as_often_as_it_would_be_tried(
    in_doubt: bool, put_off_for: timedelta, deferred_before: int, is_over: bool
) -> None:
    delivery = a_delivery(deferred_count=deferred_before, put_off_for=put_off_for, in_doubt=in_doubt)

    decision = decided(delivery, PUT_OFF)

    assert decision.reason is (ReasonClass.EXHAUSTED if is_over else None)
    assert (decision.in_doubt, decision.deferred, decision.put_off) == (in_doubt, True, not is_over)


@pytest.mark.parametrize("outcome", DEFERRED, ids=lambda outcome: outcome.code)
def test_deferral_by_our_own_fault_ends_by_the_deadline_alone(outcome: Deferred) -> None:
    delivery = a_delivery(attempt_count=99, deferred_count=99, put_off_for=timedelta(days=99))

    decision = decided(delivery, outcome)

    assert decision.reason is (None if is_our_own(outcome) else ReasonClass.EXHAUSTED)
    assert not (is_our_own(outcome) and decision.put_off)
    assert decided(replace(delivery, time_left=timedelta(0)), outcome).reason is not None


@pytest.mark.parametrize("can_look_up", [True, None])
def test_doubt_is_asked_about_until_there_is_an_answer(can_look_up: bool | None) -> None:
    delivery = a_delivery(deferred_count=99, put_off_for=timedelta(days=99), in_doubt=True, can_look_up=can_look_up)

    assert decided(delivery, PUT_OFF) == wait(100 * S, in_doubt=True, deferred=True)
    assert decided(replace(delivery, in_doubt=False), PUT_OFF).reason is ReasonClass.EXHAUSTED


@pytest.mark.parametrize(
    ("delivery", "decision"),
    [
        (a_delivery(in_doubt=True), wait(15 * S, in_doubt=True, deferred=True, put_off=True)),
        (a_delivery(if_unsure=HOLD), wait(15 * S, in_doubt=False, deferred=True, put_off=True)),
        (
            a_delivery(in_doubt=True, if_unsure=HOLD, can_look_up=True),
            wait(15 * S, in_doubt=True, deferred=True),
        ),
        (
            a_delivery(in_doubt=True, if_unsure=HOLD),
            dead_letter(ReasonClass.IN_DOUBT, in_doubt=True, deferred=True),
        ),
    ],
)
def test_doubt_stays_as_it_is_after_a_deferred_attempt(delivery: Delivery, decision: Decision) -> None:
    assert decided(delivery, Deferred("http_503", again_in=15 * S)) == decision


@pytest.mark.parametrize("outcome", [FAILED, Deferred("busy", again_in=10 * S)])
@pytest.mark.parametrize(
    ("time_left", "expires"), [(None, False), (11 * S, False), (10 * S, True), (S, True), (-S, True)]
)
def test_wait_that_would_end_at_or_after_the_deadline_is_given_up_at_once(
    outcome: Outcome, time_left: timedelta | None, expires: bool
) -> None:
    decision = decided(a_delivery(time_left=time_left), outcome)

    assert (decision.reason is ReasonClass.EXPIRED) is expires
    assert decision.deferred is isinstance(outcome, Deferred)


@pytest.mark.parametrize("outcome", [FAILED, UNKNOWN, Deferred("busy", again_in=10 * S)])
@pytest.mark.parametrize(("can_look_up", "reason"), [(False, ReasonClass.EXPIRED), (True, None), (None, None)])
def test_deadline_ends_no_doubt_that_can_still_be_asked_about(
    outcome: Outcome, can_look_up: bool | None, reason: ReasonClass | None
) -> None:
    delivery = a_delivery(in_doubt=True, can_look_up=can_look_up, time_left=S)

    decision = decided(delivery, outcome)

    assert decision.in_doubt
    assert decision.reason is reason
    assert decision.deferred is isinstance(outcome, Deferred)


@pytest.mark.parametrize("time_left", [S, 39 * S])
def test_lost_lease_at_the_deadline_is_given_up_in_doubt(time_left: timedelta) -> None:
    """Who requeues it sends it no sooner than if there were no deadline."""
    policy = replace(POLICY, timeout=40 * S)

    decision = decided(a_delivery(time_left=time_left), LEASE_EXPIRED, policy)

    assert decision == dead_letter(ReasonClass.EXPIRED, in_doubt=True, left_alone=40 * S)


def test_outcome_of_another_type_is_a_programming_error() -> None:
    with pytest.raises(AssertionError):
        decided(a_delivery(), cast(Outcome, "delivered"))
