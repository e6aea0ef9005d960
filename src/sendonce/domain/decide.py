"""decide(): what becomes of a delivery when an attempt has ended. Nothing else chooses a state."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import assert_never

from sendonce.domain.answers import MAY_COME_AT_ONCE
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
from sendonce.domain.policies import IfUnsure, Policy, next_delay, parse_policy, span
from sendonce.errors import ConfigError

_MOMENT = timedelta(microseconds=1)
# Whatever a subscription's settings are put over: so short that only what they say themselves counts.
_NOTHING_SAID = Policy(first_delay=_MOMENT, longest_delay=timedelta(days=30), timeout=_MOMENT, doubt_wait=timedelta(0))


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, and what is written with it. Built only by complete(), wait() and dead_letter().

    `left_alone`: from now on, for so long, nobody may ask about it or send it, whatever makes it due. `put_off`: the
    other side wanted it deferred; since when that goes on is written down.
    """

    to: DeliveryState
    in_doubt: bool = False
    delay: timedelta | None = None
    left_alone: timedelta | None = None
    reason: ReasonClass | None = None
    deferred: bool = False
    put_off: bool = False


COMPLETE = Decision(DeliveryState.COMPLETED)


def complete() -> Decision:
    """Complete a delivery that arrived."""
    return COMPLETE


def wait(
    delay: timedelta,
    *,
    in_doubt: bool,
    deferred: bool = False,
    put_off: bool = False,
    left_alone: timedelta | None = None,
) -> Decision:
    """Try again, or ask, after `delay`; the database adds it to its own clock."""
    return Decision(
        DeliveryState.PENDING_RETRY,
        in_doubt=in_doubt,
        delay=delay,
        left_alone=left_alone,
        deferred=deferred,
        put_off=put_off,
    )


def dead_letter(
    reason: ReasonClass, *, in_doubt: bool, deferred: bool = False, left_alone: timedelta | None = None
) -> Decision:
    """Give up; a person decides what happens next."""
    return Decision(
        DeliveryState.DEAD_LETTERED, in_doubt=in_doubt, reason=reason, left_alone=left_alone, deferred=deferred
    )


def decide(delivery: Delivery, outcome: Outcome, policy: Policy, *, spread: float) -> Decision:
    """Say what becomes of a delivery. Reads nothing and writes nothing.

    The result is counted first: limits are compared with the attempts made, this one included. Doubt is sticky:
    only Delivered clears it here (an answered look-up has cleared it before: see `Delivery.in_doubt`). While in
    doubt nothing is given up before a look-up was tried, where the channel has one.
    """
    match outcome:
        case Delivered():
            return complete()
        case Refused():
            return _give_up(delivery, ReasonClass.REFUSED, policy, spread)
        case Failed(retry_after=retry_after):
            if _is_spent(delivery, policy) or _is_held(delivery, policy):
                return _give_up(delivery, ReasonClass.EXHAUSTED, policy, spread)
            asked = min(retry_after or timedelta(0), policy.retry_after_cap)
            pause = max(_backoff(delivery, policy, spread), asked)
            return _within_deadline(delivery, wait(pause, in_doubt=delivery.in_doubt))
        case Unknown() | Accepted():
            return _doubt(delivery, outcome, policy, spread)
        case Deferred():
            return _defer(delivery, outcome, policy, spread)
        case _:
            assert_never(outcome)


def is_spent(attempt_count: int, deferred_count: int, policy: Policy) -> bool:
    """True when these attempts, the deferred ones not counted, have reached the limit."""
    return attempt_count >= policy.max_attempts + deferred_count


def doubt_wait(policy: Policy, code: str | None, *, was_in_doubt: bool) -> timedelta:
    """How long an attempt of unknown outcome is left alone before anybody asks about it, or sends again.

    Its lease may be over by a clock that has jumped, with its worker still at it: for as long as one send may take, and
    one look-up before that where there was something to ask.
    """
    if code != LEASE_EXPIRED.code:
        return policy.doubt_wait
    return max(policy.doubt_wait, policy.timeout * (2 if was_in_doubt else 1))


def own_doubt_wait(settings: str) -> timedelta:
    """How long these settings of a subscription leave alone what may have been sent, and be on its way still, whatever
    they are put over; next to nothing where they say nothing about it, or nothing that can be read."""
    try:
        return doubt_wait(parse_policy(_NOTHING_SAID, settings), LEASE_EXPIRED.code, was_in_doubt=True)
    except ConfigError:
        return timedelta(0)


def _is_spent(delivery: Delivery, policy: Policy) -> bool:
    return is_spent(delivery.attempt_count + 1, delivery.deferred_count, policy)


def _is_held(delivery: Delivery, policy: Policy) -> bool:
    """True when a person must decide: it may have been sent, no receiver can be asked, and a repeat is not wanted."""
    if_unsure = delivery.if_unsure or policy.if_unsure
    return delivery.in_doubt and delivery.can_look_up is False and if_unsure is IfUnsure.HOLD


def _backoff(delivery: Delivery, policy: Policy, spread: float) -> timedelta:
    return next_delay(policy, delivery.attempt_count + 1 - delivery.deferred_count, spread)


def _doubt(delivery: Delivery, outcome: Unknown | Accepted, policy: Policy, spread: float) -> Decision:
    """Decide about what may have been sent: ask later, resend with the same token, or hold it for a person."""
    doubtful = replace(delivery, in_doubt=True)
    nobody_to_ask = delivery.can_look_up is False
    code = outcome.code if isinstance(outcome, Unknown) else None
    # Without anybody to ask there is no answer to wait for; but who has lost a lease may still be sending it.
    left_alone: timedelta | None = None
    if not nobody_to_ask or code == LEASE_EXPIRED.code:
        left_alone = doubt_wait(policy, code, was_in_doubt=delivery.in_doubt)
    if nobody_to_ask and (_is_spent(delivery, policy) or _is_held(doubtful, policy)):
        return replace(_give_up(doubtful, ReasonClass.EXHAUSTED, policy, spread), left_alone=left_alone)
    pause = max(_backoff(delivery, policy, spread), left_alone or timedelta(0))
    return _within_deadline(doubtful, wait(pause, in_doubt=True, left_alone=left_alone))


def _may_come_at_once(outcome: Deferred) -> bool:
    """True when nothing delays it: it waits as long as it says. A channel of one's own cannot say so."""
    return outcome.again_in is not None and outcome.fault is Fault.OURS and outcome.code in MAY_COME_AT_ONCE


def _defer(delivery: Delivery, outcome: Deferred, policy: Policy, spread: float) -> Decision:
    """Put it off: never sooner than the backoff, whatever the receiver asks for, and not for ever."""
    if _is_held(delivery, policy):
        return dead_letter(ReasonClass.IN_DOUBT, in_doubt=True, deferred=True)
    can_be_asked = delivery.in_doubt and delivery.can_look_up is not False
    put_off = not is_our_own(outcome) and not can_be_asked
    # As long and as often as it would have been tried; the time alone also passes while nobody is at work.
    is_often = delivery.deferred_count + 1 >= policy.max_attempts
    if put_off and is_often and delivery.put_off_for >= span(policy):
        return dead_letter(ReasonClass.EXHAUSTED, in_doubt=delivery.in_doubt, deferred=True)
    longest = max(policy.retry_after_cap, policy.longest_delay)
    if delivery.in_doubt:
        longest = max(longest, doubt_wait(policy, LEASE_EXPIRED.code, was_in_doubt=True))
    pause = min(max(outcome.again_in or timedelta(0), timedelta(0)), longest)
    if not _may_come_at_once(outcome):
        pause = max(pause, next_delay(policy, delivery.deferred_count + 1, spread))
    return _within_deadline(delivery, wait(pause, in_doubt=delivery.in_doubt, deferred=True, put_off=put_off))


def _give_up(delivery: Delivery, reason: ReasonClass, policy: Policy, spread: float) -> Decision:
    """A permanent failure; while in doubt only where nobody can be asked. What is held waits for a person as that."""
    if not delivery.in_doubt or delivery.can_look_up is False:
        held = _is_held(delivery, policy)
        return dead_letter(ReasonClass.IN_DOUBT if held else reason, in_doubt=delivery.in_doubt)
    return wait(max(policy.doubt_wait, _backoff(delivery, policy, spread)), in_doubt=True)


def _within_deadline(delivery: Delivery, decision: Decision) -> Decision:
    """A wait that would end after the deadline is given up at once, unless there is still somebody to ask."""
    delay = decision.delay or timedelta(0)
    if delivery.time_left is None or delay < delivery.time_left:
        return decision
    if delivery.in_doubt and delivery.can_look_up is not False:
        return decision
    return dead_letter(
        ReasonClass.EXPIRED, in_doubt=delivery.in_doubt, deferred=decision.deferred, left_alone=decision.left_alone
    )
