"""One attempt: send, or ask first when it may have been sent already. Answers with an outcome, always."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from sendonce.channels.protocol import NONE, Asking, Channel, Credentials, LookingUp, Message, look_up
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
from sendonce.domain.attempts import Claim, Report
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
    LookUp,
    NoAnswer,
    NotThere,
    Outcome,
    Refused,
    Unknown,
)
from sendonce.domain.policies import IfUnsure, Policy


class CredentialStore(Protocol):
    """Reads a subscription's secrets."""

    async def of(self, subscription_id: int) -> Credentials | Deferred:
        """Return the subscription's credentials, or a Deferred that says why they are unavailable.

        Nothing is ever sent unsigned because a secret could not be read.
        """
        ...


class LookedUp(NamedTuple):
    """What is known of a delivery in doubt without sending it; without an outcome it is to be sent (again).

    `cleared`, `cannot_be_asked` and `answered` as in a Report.
    """

    outcome: Outcome | None = None
    cleared: bool = False
    cannot_be_asked: bool = False
    answered: str | None = None

    def report(self, claim: Claim, lease_id: int, outcome: Outcome) -> Report:
        """Return a report of this outcome, with what the look-up has shown."""
        return Report(
            claim,
            lease_id,
            outcome,
            cleared=self.cleared,
            cannot_be_asked=self.cannot_be_asked,
            answered=self.answered,
        )


class _Route(NamedTuple):
    """How the receiver of a claim is reached; without `asking` it cannot be asked."""

    channel: Channel
    asking: LookingUp | None
    message: Message


NOT_ASKED = LookedUp()
Seconds = Callable[[Policy], float]
AskOnce = Callable[[LookingUp, Message, float], Awaitable[LookUp]]


async def _look_up(asking: LookingUp, message: Message, seconds: float) -> LookUp:
    return await asking.look_up(message, timeout=seconds)


class AttemptRunner:
    """Knows the channels; knows nothing of slots, leases or databases."""

    def __init__(self, channels: Channels, namespace: str, credentials: CredentialStore | None = None) -> None:
        self._channels = channels
        self._namespace = namespace
        self._credentials = credentials

    async def attempt(self, claim: Claim, lease_id: int, policy: Policy, seconds: Seconds) -> Report:
        """Send the claim's message, or ask about it first when it may have been sent.

        `seconds` is called just before each write to the wire: how long it may take from there, zero for not at all.
        """
        if claim.is_proven:
            return Report(claim, lease_id, Delivered(claim.notification_id))
        hopeless = _hopeless(claim, policy)
        if hopeless is not None and not claim.in_doubt:
            return Report(claim, lease_id, hopeless)
        route = await self._route(claim)
        if isinstance(route, Deferred):
            return Report(claim, lease_id, route)
        channel, asking, message = route
        known = NOT_ASKED
        if claim.in_doubt:
            known = _after(await _ask(claim, route, policy, seconds, _look_up), hopeless)
        if known.outcome is not None:
            return known.report(claim, lease_id, known.outcome)
        left = seconds(policy)
        if left <= 0:
            return known.report(claim, lease_id, TOO_LATE)
        checkpoint("sender.before_send")
        outcome = await channel.send(message, timeout=left)
        checkpoint("sender.after_send")
        if type(outcome) is not Delivered or outcome.sent_at is not None:
            outcome = _checked(outcome)
        if asking is not None and type(outcome) is Delivered and not outcome.notification_id:
            # A receiver that a subscription says can be asked knows a message by our token, and has no id of its own.
            outcome = NO_ID if isinstance(asking, Asking) else replace(outcome, notification_id=message.token)
        return known.report(claim, lease_id, outcome)

    async def ask(self, claim: Claim, policy: Policy, seconds: Seconds) -> LookedUp:
        """Ask about a claim in doubt, and send nothing. A channel that raises, or is late, has not answered."""
        if claim.is_proven:
            return LookedUp(Delivered(claim.notification_id))
        route = await self._route(claim)
        if isinstance(route, Deferred):
            return LookedUp(route)
        return await _ask(claim, route, policy, seconds, look_up)

    async def _route(self, claim: Claim) -> _Route | Deferred:
        """Return how the claim's receiver is reached, or why it must wait."""
        is_subscription = claim.subscription_id is not None
        channel = self._channels.find(claim.address, is_subscription=is_subscription)
        if channel is None:
            return replace(NO_CHANNEL, message=f"there is no channel here for {scheme_of(claim.address)}:")
        credentials = await self._credentials_of(claim)
        if isinstance(credentials, Deferred):
            return credentials
        asking = self._channels.find_asking(claim.address, is_subscription=is_subscription, ask=claim.ask)
        return _Route(channel, asking, message_of(claim, self._namespace, credentials))

    async def _credentials_of(self, claim: Claim) -> Credentials | Deferred:
        if claim.subscription_id is None or self._credentials is None:
            return NONE
        return await self._credentials.of(claim.subscription_id)


def message_of(claim: Claim, namespace: str, credentials: Credentials = NONE) -> Message:
    """Return what a channel is given to send for this claim."""
    return Message(
        address=claim.address,
        body=(claim.payload or "") if claim.content is None else claim.content,
        type=claim.type,
        key=claim.key,
        recorded_at=claim.recorded_at,
        tenant=claim.tenant,
        has_content=claim.content is not None,
        headers=claim.headers,
        subject=claim.subject,
        version=claim.version,
        attempt=claim.attempt,
        delivery_id=claim.delivery_id,
        event_id=claim.event_id,
        is_for_subscription=claim.subscription_id is not None,
        notification_id=claim.notification_id,
        credentials=credentials,
        namespace=namespace,
        destination=claim.destination,
        corrections=claim.corrections,
        ask=claim.ask,
    )


async def _ask(claim: Claim, route: _Route, policy: Policy, seconds: Seconds, ask_once: AskOnce) -> LookedUp:
    """Ask the receiver about a delivery that may have been sent."""
    if route.asking is None:
        return _unsure(claim, policy)
    left = seconds(policy)
    if left <= 0:
        return LookedUp(TOO_LATE)
    checkpoint("sender.before_look_up")
    answer = await ask_once(route.asking, route.message, left)
    checkpoint("sender.after_look_up")
    match answer:
        case Found(notification_id, sent_at):
            id = notification_id or claim.notification_id or route.message.token
            return LookedUp(_checked(Delivered(id, response=FOUND, sent_at=sent_at)), answered="found")
        case NoAnswer(code, text, again_in, fault):
            outcome = _checked(replace(NO_ANSWER, code=code, message=text, again_in=again_in, fault=fault))
            return LookedUp(outcome, answered="no_answer")
        case NotThere():
            spent = is_spent(claim.attempt_count, claim.deferred_count, policy)
            return LookedUp(SPENT if spent else None, cleared=True, answered="not_found")
        case CannotTell(is_safe_to_repeat=is_safe):
            return (NOT_ASKED if is_safe else _unsure(claim, policy))._replace(answered="cannot_tell")
    return LookedUp(replace(BAD_LOOK_UP, message=f"the channel answered a look-up with {type(answer).__name__}"))


def _after(known: LookedUp, hopeless: Outcome | None) -> LookedUp:
    """Send nothing that is hopeless, and never again ask a receiver that cannot tell."""
    if known.outcome is not None or hopeless is None:
        return known
    return known._replace(outcome=hopeless, cannot_be_asked=known.cannot_be_asked or known.answered == "cannot_tell")


def _unsure(claim: Claim, policy: Policy) -> LookedUp:
    """Do what the publisher, the subscription or the channel chose for the case that nobody can be asked."""
    chosen = IfUnsure(claim.if_unsure) if claim.if_unsure else policy.if_unsure
    return LookedUp(HELD if chosen is IfUnsure.HOLD else None, cannot_be_asked=True)


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
