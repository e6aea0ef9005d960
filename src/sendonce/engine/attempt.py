"""One attempt: send, or ask first when it may have been sent already. Answers with an outcome, always."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from sendonce.channels.credentials import NONE, Credentials
from sendonce.channels.protocol import Asking, Message
from sendonce.channels.registry import Channels
from sendonce.checkpoints import checkpoint
from sendonce.domain.answers import (
    BAD_LOOK_UP,
    BAD_OUTCOME,
    EXPIRED,
    GONE,
    HELD,
    LIMIT_REACHED,
    NO_ANSWER,
    NO_CHANNEL,
    NO_ID,
    REMOVED,
    SPENT,
    TOO_LATE,
)
from sendonce.domain.attempts import Claim
from sendonce.domain.decide import is_spent
from sendonce.domain.destinations import scheme_of
from sendonce.domain.outcomes import (
    FOUND,
    Accepted,
    CannotTell,
    Deferred,
    Delivered,
    Failed,
    Found,
    NoAnswer,
    NotThere,
    Outcome,
    Refused,
    Unknown,
)
from sendonce.domain.policies import IfUnsure, Policy


class CredentialStore(Protocol):
    """Where a subscription's secrets are read."""

    async def of(self, subscription_id: int) -> Credentials | Deferred:
        """They, or why it must wait: nothing is ever sent unsigned because a secret could not be read."""
        ...


class Attempted(NamedTuple):
    """What one attempt came to. `cleared`, `cannot_be_asked` and `answered` as in a Report."""

    outcome: Outcome
    cleared: bool = False
    cannot_be_asked: bool = False
    answered: str | None = None


class AttemptRunner:
    """Knows the channels; knows nothing of slots, leases or databases."""

    def __init__(self, channels: Channels, namespace: str, keyring: CredentialStore | None = None) -> None:
        self._channels = channels
        self._namespace = namespace
        self._keyring = keyring

    async def attempt(self, claim: Claim, policy: Policy, seconds: Callable[[Policy], float]) -> Attempted:
        """Send it, or ask about it first.

        `seconds` is called just before each write to the wire: how long it may take from there, zero for not at all.
        """
        if claim.is_proven:
            return Attempted(Delivered(claim.notification_id))
        hopeless = _hopeless(claim, policy)
        if hopeless is not None and not claim.in_doubt:
            return Attempted(hopeless)
        is_subscription = claim.subscription_id is not None
        channel = self._channels.find(claim.address, is_subscription=is_subscription)
        if channel is None:
            text = f"this worker has no channel for {scheme_of(claim.address)}:"
            return Attempted(replace(NO_CHANNEL, message=text))
        credentials = await self._credentials(claim)
        if isinstance(credentials, Deferred):
            return Attempted(credentials)
        message = Message(claim, self._namespace, credentials)
        asking = self._channels.find_asking(claim.address, is_subscription=is_subscription)
        known = Known(None)
        if claim.in_doubt:
            known = _after(await ask(claim, asking, message, policy, seconds), hopeless)
        if known.answer is not None:
            return Attempted(known.answer, *known[1:])
        left = seconds(policy)
        if left <= 0:
            return Attempted(TOO_LATE, *known[1:])
        checkpoint("sender.before_send")
        outcome = await channel.send(message, timeout=left)
        checkpoint("sender.after_send")
        if type(outcome) is not Delivered or outcome.sent_at is not None:
            outcome = _checked(outcome)
        if asking is not None and type(outcome) is Delivered and not outcome.notification_id:
            outcome = NO_ID
        return Attempted(outcome, *known[1:])

    async def _credentials(self, claim: Claim) -> Credentials | Deferred:
        if claim.subscription_id is None or self._keyring is None:
            return NONE
        return await self._keyring.of(claim.subscription_id)


class Known(NamedTuple):
    """What is known of a delivery in doubt without sending. No answer: it is to be sent (again)."""

    answer: Outcome | None
    cleared: bool = False
    cannot_be_asked: bool = False
    answered: str | None = None


async def ask(
    claim: Claim, channel: Asking | None, message: Message, policy: Policy, seconds: Callable[[Policy], float]
) -> Known:
    """Ask about a delivery that may have been sent."""
    if channel is None:
        return _unsure(claim, policy)
    left = seconds(policy)
    if left <= 0:
        return Known(TOO_LATE)
    checkpoint("sender.before_look_up")
    answer = await channel.look_up(message, timeout=left)
    checkpoint("sender.after_look_up")
    match answer:
        case Found(notification_id, sent_at):
            id = notification_id or claim.notification_id or message.token
            return Known(_checked(Delivered(id, response=FOUND, sent_at=sent_at)), answered="found")
        case NoAnswer(code, text, again_in, fault):
            return Known(
                _checked(replace(NO_ANSWER, code=code, message=text, again_in=again_in, fault=fault)),
                answered="no_answer",
            )
        case NotThere():
            spent = is_spent(claim.attempt_count, claim.deferred_count, policy)
            return Known(SPENT if spent else None, cleared=True, answered="not_found")
        case CannotTell(is_safe_to_repeat=is_safe):
            return (Known(None) if is_safe else _unsure(claim, policy))._replace(answered="cannot_tell")
    text = f"the channel answered a look-up with {type(answer).__name__}"
    return Known(replace(BAD_LOOK_UP, message=text))


def _after(known: Known, hopeless: Outcome | None) -> Known:
    """What comes after asking: where it is hopeless nothing is sent, and whoever cannot tell is not asked again."""
    if known.answer is not None or hopeless is None:
        return known
    return known._replace(answer=hopeless, cannot_be_asked=known.cannot_be_asked or known.answered == "cannot_tell")


def _unsure(claim: Claim, policy: Policy) -> Known:
    """Nobody can be asked: what the publisher, the subscription or the channel chose for this case."""
    chosen = IfUnsure(claim.if_unsure) if claim.if_unsure else policy.if_unsure
    return Known(HELD if chosen is IfUnsure.HOLD else None, cannot_be_asked=True)


def _hopeless(claim: Claim, policy: Policy) -> Outcome | None:
    """Why it is not sent, whatever the channel says; a delivery in doubt is asked about all the same."""
    if claim.subscription_state == "removed":
        return REMOVED
    if claim.payload is None and claim.content is None:
        return GONE
    if claim.seconds_left is not None and claim.seconds_left <= 0:
        return EXPIRED
    if claim.attempt_count and is_spent(claim.attempt_count, claim.deferred_count, policy):
        return LIMIT_REACHED
    return None


def _checked(outcome: object) -> Outcome:
    """A channel that answers with something else has sent, perhaps. A wait or a time that is none is left out."""
    match outcome:
        case Delivered(sent_at=moment) if moment is not None and not _is_likely(moment):
            return replace(outcome, sent_at=None)
        case Refused(code=code) | Failed(code=code) | Unknown(code=code) | Deferred(code=code) if type(code) is not str:
            return _checked(replace(outcome, code=str(code)))
        case Failed(retry_after=wait) if wait is not None and not isinstance(wait, timedelta):
            return replace(outcome, retry_after=None)
        case Deferred(again_in=wait) if wait is not None and not isinstance(wait, timedelta):
            return replace(outcome, again_in=None)
        case Delivered() | Accepted() | Refused() | Failed() | Unknown() | Deferred():
            return outcome
    return replace(BAD_OUTCOME, message=f"the channel answered with {type(outcome).__name__}")


def _is_likely(moment: object) -> bool:
    """Whether it can be when something was sent: what no calendar can hold could be neither written nor read again."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        return False
    return moment.year >= 2000 and moment <= datetime.now(UTC) + timedelta(days=1)
