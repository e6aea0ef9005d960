"""What a channel is: one method that tries once and tells the truth, and optionally one that asks."""

from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from sendonce.channels.credentials import NONE, Credentials
from sendonce.domain.attempts import Claim
from sendonce.domain.outcomes import LookUp, Outcome
from sendonce.domain.tokens import provider_token


class Message:
    """What is sent: the same for every attempt of one delivery, but for `attempt`."""

    __slots__ = ("_claim", "_namespace", "credentials")

    def __init__(self, claim: Claim, namespace: str, credentials: Credentials = NONE) -> None:
        self._claim = claim
        self._namespace = namespace
        self.credentials = credentials

    @property
    def token(self) -> str:
        """The idempotency token for the other side: the same for every attempt, requeue and restore."""
        claim = self._claim
        return provider_token(
            self._namespace, claim.tenant, claim.type, claim.key, claim.destination, claim.corrections
        )

    @property
    def address(self) -> str:
        """The URI to reach."""
        return self._claim.address

    @property
    def body(self) -> str:
        """What to send: the destination's own content, or the event's payload (JSON)."""
        claim = self._claim
        return (claim.payload or "") if claim.content is None else claim.content

    @property
    def has_content(self) -> bool:
        """True when the destination brought its own content (an Email), so that `body` is not the payload."""
        return self._claim.content is not None

    @property
    def delivery_id(self) -> int:
        return self._claim.delivery_id

    @property
    def event_id(self) -> int:
        return self._claim.event_id

    @property
    def is_for_subscription(self) -> bool:
        """True when a subscription's address is reached: a tenant chose it."""
        return self._claim.subscription_id is not None

    @property
    def attempt(self) -> int:
        return self._claim.attempt

    @property
    def tenant(self) -> str:
        return self._claim.tenant

    @property
    def type(self) -> str:
        return self._claim.type

    @property
    def key(self) -> str:
        return self._claim.key

    @property
    def subject(self) -> str | None:
        return self._claim.subject

    @property
    def version(self) -> int | None:
        return self._claim.version

    @property
    def headers(self) -> str | None:
        """The event's headers as a JSON object."""
        return self._claim.headers

    @property
    def recorded_at(self) -> datetime:
        return self._claim.recorded_at

    @property
    def notification_id(self) -> str | None:
        """The provider's id from an earlier attempt, if one is known."""
        return self._claim.notification_id


class Channel(Protocol):
    """A way to reach the outside. Knows nothing of leases, retries or databases."""

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """Try once, within `timeout` seconds. Never raises for what the other side does: says what it came to.

        Failed only when it surely was not accepted. An exception, or a timeout, counts as Unknown.
        """
        ...


@runtime_checkable
class Asking(Protocol):
    """A channel whose other side can be asked whether it has a message.

    An attribute `remembers` (a timedelta) says for how long it can; without one it never forgets.
    What it sends counts as sent only with the other side's id for it.
    """

    async def send(self, message: Message, *, timeout: float) -> Outcome: ...

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        """Ask by the message's token or its provider's id. NotFound only when the answer is sure."""
        ...


def memory_of(channel: Asking) -> timedelta | None:
    """For how long the other side can be asked about a message; None for ever."""
    remembers = getattr(channel, "remembers", None)
    return remembers if isinstance(remembers, timedelta) else None
