"""What a channel is: one method that tries once and tells the truth, and optionally one that asks."""

import asyncio
import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from sendonce.domain.answers import LOOK_UP_FAILED, LOOK_UP_LATE
from sendonce.domain.outcomes import LookUp, NoAnswer, Outcome
from sendonce.domain.texts import provider_token

# What our own machine has too little of: descriptors, memory, buffers, ports to dial from.
_SHORT = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL}


def lack_of(error: BaseException) -> str | None:
    """What our own machine had too little of, where that is why it failed: nobody else's fault."""
    if isinstance(error, OSError) and error.errno in _SHORT:
        return f"the worker's machine is at a limit of its own: {os.strerror(error.errno)}"
    return None


def named(error: BaseException) -> str:
    """RuntimeError in shop.py, line 8: the place where it was raised."""
    name, place = type(error).__name__, error.__traceback__
    if place is None:
        return name
    while place.tb_next is not None:
        place = place.tb_next
    return f"{name} in {os.path.basename(place.tb_frame.f_code.co_filename)}, line {place.tb_lineno}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Credentials:
    """`signing`: the keys that sign, newest first; while a rotation overlaps there are two.

    `certificate` is a client certificate and its key, as PEM.
    """

    signing: tuple[bytes, ...] = ()
    bearer: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    certificate: str | None = None


NONE = Credentials()


# Not frozen: one is made for every attempt, and checking each field for that costs three times as much.
@dataclass(slots=True, kw_only=True, repr=False)
class Message:
    """What a channel sends: the same for every attempt of one delivery, except for `attempt`.

    `address` is the URI to reach; `body` is the destination's own content where it brought some (an Email, then
    `has_content`), else the event's payload (JSON). `headers` are the event's, as a JSON object. `notification_id` is
    the receiver's id from an earlier attempt, if one is known. `is_for_subscription`: a tenant chose the address.
    `namespace`, `destination` (as it was recorded) and `corrections` are what the token is made of, beside the intent.
    `ask`: where a subscription says that its receiver can be asked.
    """

    address: str
    body: str
    type: str
    key: str
    recorded_at: datetime
    tenant: str = ""
    has_content: bool = False
    headers: str | None = None
    subject: str | None = None
    version: int | None = None
    attempt: int = 1
    delivery_id: int = 0
    event_id: int = 0
    is_for_subscription: bool = False
    notification_id: str | None = None
    credentials: Credentials = NONE
    namespace: str = ""
    destination: str = ""
    corrections: int = 0
    ask: str | None = None

    @property
    def token(self) -> str:
        """The idempotency token for the receiver: the same for every attempt, requeue and restore."""
        return provider_token(self.namespace, self.tenant, self.type, self.key, self.destination, self.corrections)


class Channel(Protocol):
    """A way to reach the outside. Knows nothing of leases, retries or databases."""

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """Try once, within `timeout` seconds. Never raises for what the other side does: says what it came to.

        Failed only when it surely was not accepted. An exception, or a timeout, counts as Unknown.
        """
        ...


class LookingUp(Protocol):
    """Asks a receiver whether it has a message."""

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        """Ask by the message's token or its provider's id. NotFound only when the answer is sure."""
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


def memory_of(channel: LookingUp) -> timedelta | None:
    """For how long the other side can be asked about a message; None for ever."""
    remembers = getattr(channel, "remembers", None)
    return remembers if isinstance(remembers, timedelta) else None


async def look_up(channel: LookingUp, message: Message, seconds: float) -> LookUp:
    """Ask a receiver once. A channel that raises, or does not answer in time, is NoAnswer."""
    try:
        async with asyncio.timeout(seconds + 1):  # whatever the channel makes of the time it is given
            return await channel.look_up(message, timeout=seconds)
    except TimeoutError:
        return NoAnswer(LOOK_UP_LATE.code, LOOK_UP_LATE.message, fault=LOOK_UP_LATE.fault)
    except Exception as error:  # a channel's own fault; its text may hold what is secret
        return NoAnswer(LOOK_UP_FAILED.code, named(error), fault=LOOK_UP_FAILED.fault)
