"""decide(): what holds for every delivery, outcome and policy."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from sendonce.domain.answers import MAY_COME_AT_ONCE
from sendonce.domain.decide import decide, is_spent
from sendonce.domain.deliveries import ALLOWED, Delivery, DeliveryState, ReasonClass
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Fault, Outcome, Refused, Unknown
from sendonce.domain.policies import IfUnsure, Policy, next_delay, span, spread_of
from tests.domain.values import a_delivery, deliveries, outcomes, policies, spreads

SURE_REASONS = {ReasonClass.REFUSED, ReasonClass.EXHAUSTED, ReasonClass.EXPIRED}


@given(delivery=deliveries(), outcome=outcomes(), policy=policies(), spread=spreads)
def test_W5_decision_is_an_allowed_move_and_complete_in_itself(
    delivery: Delivery, outcome: Outcome, policy: Policy, spread: float
) -> None:
    decision = decide(delivery, outcome, policy, spread=spread)

    assert decision.to in ALLOWED[DeliveryState.IN_PROGRESS]
    assert (decision.delay is not None) == (decision.to is DeliveryState.PENDING_RETRY)
    assert (decision.reason is not None) == (decision.to is DeliveryState.DEAD_LETTERED)
    assert decision.delay is None or decision.delay >= timedelta(0)
    assert decision.deferred is isinstance(outcome, Deferred)


@given(delivery=deliveries(), outcome=outcomes(), policy=policies(), spread=spreads)
def test_W14_only_delivered_completes(delivery: Delivery, outcome: Outcome, policy: Policy, spread: float) -> None:
    decision = decide(delivery, outcome, policy, spread=spread)

    assert (decision.to is DeliveryState.COMPLETED) is isinstance(outcome, Delivered)


@given(delivery=deliveries(), outcome=outcomes(), policy=policies(), spread=spreads)
def test_doubt_is_sticky_and_only_not_knowing_makes_it(
    delivery: Delivery, outcome: Outcome, policy: Policy, spread: float
) -> None:
    decision = decide(delivery, outcome, policy, spread=spread)

    is_doubtful = delivery.in_doubt or isinstance(outcome, Unknown | Accepted)
    assert decision.in_doubt is (is_doubtful and not isinstance(outcome, Delivered))


@given(delivery=deliveries(), outcome=outcomes(), policy=policies(), spread=spreads)
def test_doubt_is_given_up_where_nobody_can_be_asked_and_held_where_it_is_to_be(
    delivery: Delivery, outcome: Outcome, policy: Policy, spread: float
) -> None:
    decision = decide(delivery, outcome, policy, spread=spread)

    is_held = (delivery.if_unsure or policy.if_unsure) is IfUnsure.HOLD
    assert (decision.reason is ReasonClass.IN_DOUBT) == (decision.in_doubt and is_held and decision.reason is not None)
    assert not (decision.in_doubt and decision.reason in SURE_REASONS and delivery.can_look_up is not False)


@given(delivery=deliveries(), outcome=outcomes(), policy=policies(), spread=spreads)
def test_doubt_is_never_given_up_where_somebody_may_be_asked(
    delivery: Delivery, outcome: Outcome, policy: Policy, spread: float
) -> None:
    assume(delivery.can_look_up is not False)

    decision = decide(delivery, outcome, policy, spread=spread)

    assert decision.reason is None or not decision.in_doubt


@given(delivery=deliveries(), outcome=outcomes(), policy=policies(), spread=spreads)
def test_doubt_that_is_to_be_held_is_never_sent_again(
    delivery: Delivery, outcome: Outcome, policy: Policy, spread: float
) -> None:
    delivery = replace(delivery, can_look_up=False, if_unsure=IfUnsure.HOLD)

    decision = decide(delivery, outcome, policy, spread=spread)

    assert not (decision.in_doubt and decision.to is DeliveryState.PENDING_RETRY)


@given(delivery=deliveries(), policy=policies(), spread=spreads, again_in=st.none() | st.timedeltas())
def test_attempt_that_is_deferred_is_never_spent(
    delivery: Delivery, policy: Policy, spread: float, again_in: timedelta | None
) -> None:
    delivery = replace(delivery, time_left=None, if_unsure=IfUnsure.RESEND, put_off_for=timedelta(0))

    decision = decide(delivery, Deferred("busy", again_in=again_in), policy, spread=spread)
    after = replace(delivery, attempt_count=delivery.attempt_count + 1, deferred_count=delivery.deferred_count + 1)

    assert decision.to is DeliveryState.PENDING_RETRY
    assert decide(after, Failed("x"), policy, spread=spread) == decide(delivery, Failed("x"), policy, spread=spread)


@given(policy=policies(), deferred_at=st.sets(st.integers(0, 100), max_size=8))
def test_W13_exactly_max_attempts_failures_are_made_however_many_were_deferred(
    policy: Policy, deferred_at: set[int]
) -> None:
    delivery = Delivery(id=1)  # type: ignore[arg-type]
    tried, step, reason = 0, 0, None
    while reason is None and step < 300:
        outcome: Outcome = Deferred("busy") if step in deferred_at else Failed("503")
        tried += isinstance(outcome, Failed)
        decision = decide(delivery, outcome, policy, spread=0.5)
        delivery = replace(
            delivery,
            attempt_count=delivery.attempt_count + 1,
            deferred_count=delivery.deferred_count + decision.deferred,
        )
        reason, step = decision.reason, step + 1

    assert reason is ReasonClass.EXHAUSTED
    assert tried == policy.max_attempts
    assert is_spent(delivery.attempt_count, delivery.deferred_count, policy)


@given(delivery=deliveries(), policy=policies(), spread=spreads)
def test_look_up_that_is_first_waits_long_enough(delivery: Delivery, policy: Policy, spread: float) -> None:
    decision = decide(delivery, Unknown("timeout"), policy, spread=spread)

    if delivery.can_look_up is not False:
        assert decision.delay is not None
        assert decision.delay >= policy.doubt_wait


@given(delivery=deliveries(), outcome=outcomes(), policy=policies(), spread=spreads)
def test_wait_is_never_shorter_than_the_backoff_unless_nobody_has_put_it_off(
    delivery: Delivery, outcome: Outcome, policy: Policy, spread: float
) -> None:
    decision = decide(delivery, outcome, policy, spread=spread)

    assume(not (isinstance(outcome, Deferred) and outcome.fault is Fault.OURS and outcome.code in MAY_COME_AT_ONCE))
    tried = delivery.deferred_count if decision.deferred else delivery.attempt_count - delivery.deferred_count
    assert decision.delay is None or decision.delay >= next_delay(policy, tried + 1, spread)


@given(policy=policies(), again_in=st.none() | st.timedeltas(timedelta(0), timedelta(days=2)))
def test_receiver_that_always_asks_to_wait_is_given_up_after_the_policys_span_and_in_the_end(
    policy: Policy, again_in: timedelta | None
) -> None:
    delivery, times, waited = a_delivery(), 0, timedelta(0)
    while (decision := decide(delivery, Deferred("http_503", again_in=again_in), policy, spread=0.5)).delay:
        times, waited = times + 1, waited + decision.delay
        delivery = replace(delivery, attempt_count=times, deferred_count=times, put_off_for=waited)
        assert times <= 4 * policy.max_attempts + 2

    assert decision.reason is ReasonClass.EXHAUSTED
    assert waited >= span(policy)
    assert times + 1 >= policy.max_attempts


@given(delivery=deliveries(), outcome=outcomes(), policy=policies(), spread=spreads)
def test_wait_goes_over_the_deadline_only_to_ask(
    delivery: Delivery, outcome: Outcome, policy: Policy, spread: float
) -> None:
    decision = decide(delivery, outcome, policy, spread=spread)

    if decision.delay is not None and delivery.time_left is not None and decision.delay >= delivery.time_left:
        assert decision.in_doubt
        assert delivery.can_look_up is not False


@given(delivery=deliveries(), policy=policies(), spread=spreads)
def test_refusal_without_doubt_ends_at_once(delivery: Delivery, policy: Policy, spread: float) -> None:
    decision = decide(replace(delivery, in_doubt=False), Refused("410"), policy, spread=spread)

    assert decision.reason is ReasonClass.REFUSED


@given(delivery=deliveries(), outcome=outcomes(), policy=policies())
def test_W10_same_attempt_is_decided_the_same_way_every_time(
    delivery: Delivery, outcome: Outcome, policy: Policy
) -> None:
    def once() -> object:
        return decide(delivery, outcome, policy, spread=spread_of(delivery.id, delivery.attempt_count + 1))

    assert once() == once()
