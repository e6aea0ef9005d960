"""One attempt: send, or ask first when it may have been sent already. Answers with an outcome, always."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from sendonce.channels.protocol import Asking, Message
from sendonce.channels.registry import Channels
from sendonce.checkpoints import checkpoint
from sendonce.domain.attempts import Claim
from sendonce.domain.decide import is_spent
from sendonce.domain.destinations import scheme_of
from sendonce.domain.outcomes import (
    Accepted,
    Deferred,
    Delivered,
    Failed,
    Found,
    NoAnswer,
    NotFound,
    Outcome,
    Refused,
    Unknown,
)
from sendonce.domain.policies import IfUnsure, Policy

HELD = Unknown("held", "it may have been sent, nobody can be asked, and the policy is to hold it for a person")
EXPIRED = Deferred("expired", "its deadline has passed")
SPENT = Failed("not_found", "the receiver does not have it, and the attempts are used up")
REMOVED = Refused("subscription_removed", "the subscription was removed")
GONE = Refused("content_gone", "its content was erased before it could be sent")


class Attempting:
    """Knows the channels; knows nothing of slots, leases or databases."""

    def __init__(self, channels: Channels, namespace: str) -> None:
        self._channels = channels
        self._namespace = namespace

    async def attempt(self, claim: Claim, policy: Policy, seconds: Callable[[Policy], float]) -> tuple[Outcome, bool]:
        """The outcome, and whether a look-up has cleared an earlier doubt.

        `seconds` is called just before each write to the wire: how long it may take from there, zero for not at all.
        """
        if claim.is_proven:
            return Delivered(claim.notification_id), False
        hopeless = _hopeless(claim)
        if hopeless is not None and not claim.in_doubt:
            return hopeless, False
        scheme = scheme_of(claim.address)
        channel = self._channels.find(scheme)
        if channel is None:
            return Deferred("no_channel", f"this worker has no channel for {scheme}:"), False
        message = Message(claim, self._namespace)
        cleared = False
        if claim.in_doubt:
            asking = self._channels.find_asking(scheme)
            answer = await _ask(claim, asking, message, policy, seconds)
            if answer is not None:
                return answer
            cleared = asking is not None
        if hopeless is not None:
            return hopeless, cleared
        left = seconds(policy)
        if left <= 0:
            return Deferred("lease_too_short", "too little of the lease was left to send it"), cleared
        checkpoint("sender.before_send")
        outcome = await channel.send(message, timeout=left)
        checkpoint("sender.after_send")
        return outcome if type(outcome) is Delivered else _checked(outcome), cleared


async def _ask(
    claim: Claim, channel: Asking | None, message: Message, policy: Policy, seconds: Callable[[Policy], float]
) -> tuple[Outcome, bool] | None:
    """What is known of a delivery in doubt without sending; None when it is to be sent (again)."""
    if channel is None:
        chosen = IfUnsure(claim.if_unsure) if claim.if_unsure else policy.if_unsure
        return (HELD, False) if chosen is IfUnsure.HOLD else None
    left = seconds(policy)
    if left <= 0:
        return Deferred("lease_too_short", "too little of the lease was left to ask"), False
    answer = await channel.look_up(message, timeout=left)
    match answer:
        case Found(notification_id):
            return Delivered(notification_id or claim.notification_id), False
        case NoAnswer(code, text, again_in):
            return _checked(Deferred(code, text, again_in)), False
        case NotFound():
            return (SPENT, True) if is_spent(claim.attempt_count, claim.deferred_count, policy) else None
    return Deferred("bad_look_up", f"the channel answered a look-up with {type(answer).__name__}"), False


def _hopeless(claim: Claim) -> Outcome | None:
    """Why it is not sent, whatever the channel says; a delivery in doubt is asked about all the same."""
    if claim.subscription_state == "removed":
        return REMOVED
    if claim.payload is None and claim.content is None:
        return GONE
    if claim.seconds_left is not None and claim.seconds_left <= 0:
        return EXPIRED
    return None


def _checked(outcome: object) -> Outcome:
    """A channel that answers with something else has sent, perhaps. A wait that is none is left out."""
    match outcome:
        case Failed(retry_after=wait) if wait is not None and not isinstance(wait, timedelta):
            return replace(outcome, retry_after=None)
        case Deferred(again_in=wait) if wait is not None and not isinstance(wait, timedelta):
            return replace(outcome, again_in=None)
        case Delivered() | Accepted() | Refused() | Failed() | Unknown() | Deferred():
            return outcome
    return Unknown("bad_outcome", f"the channel answered with {type(outcome).__name__}")
