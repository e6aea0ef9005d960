"""The receiver of every channel in a test: it keeps what it was sent, answers as it is told, and can be asked."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from sendonce.channels.protocol import Channel, LookingUp, Message
from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import Accepted, Delivered, Found, LookUp, NotThere, Outcome, Unknown
from sendonce.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One message that was handed to a channel, and what came of it.

    `destination` is where it went to (a subscription's own address), `token` the same for every attempt of a delivery.
    `arrived`: the receiver has it, whatever the sender was told.
    """

    type: str
    key: str
    destination: str
    body: str
    token: str
    attempt: int
    outcome: Outcome
    arrived: bool
    tenant: str
    subject: str | None
    version: int | None
    headers: dict[str, str]
    event_id: int
    delivery_id: int

    @property
    def content(self) -> Any:
        """The body read as JSON: the payload, or the parts of an Email (`subject`, `text`, `html` …)."""
        return json.loads(self.body)

    @classmethod
    def of(cls, message: Message, outcome: Outcome, *, arrived: bool | None = None) -> "Sent":
        return cls(
            type=message.type,
            key=message.key,
            destination=message.address,
            body=message.body,
            token=message.token,
            attempt=message.attempt,
            outcome=outcome,
            arrived=isinstance(outcome, Delivered | Accepted) if arrived is None else arrived,
            tenant=message.tenant,
            subject=message.subject,
            version=message.version,
            headers=json.loads(message.headers or "{}"),
            event_id=message.event_id,
            delivery_id=message.delivery_id,
        )


@dataclass(frozen=True, slots=True)
class _Told:
    outcome: Outcome
    arrives: bool
    to: str | None


class Receiver:
    """Takes everything, unless told otherwise. `can_be_asked`: it answers look-ups, and was `asked` so often."""

    def __init__(self, *, can_be_asked: bool = False) -> None:
        self.can_be_asked = can_be_asked
        self.asked = 0
        self._answers: list[_Told] = []
        self._look_ups: list[LookUp] = []
        self._has: dict[str, str] = {}

    def answer(self, outcome: Outcome, *, times: int = 1, to: str | None = None, arrives: bool | None = None) -> None:
        """Answer the next sends with this, after what was told before: `answer(Failed("busy"), times=2)`.

        `to` one destination only. Unknown stands for an answer that was lost or came too late: the receiver has the
        message, unless `arrives=False`.
        """
        if not isinstance(outcome, Outcome):
            raise ConfigError(f"the receiver answers a send with one of {_names(Outcome)}, not {_shown(outcome)}")
        _check_times(times)
        if arrives is None:
            arrives = isinstance(outcome, Delivered | Accepted | Unknown)
        self._answers += [_Told(outcome, arrives, to)] * times

    def answer_look_up(self, answer: LookUp, *, times: int = 1) -> None:
        """Answer the next look-ups with this, whatever it has: NoAnswer, CannotTell, even what is wrong."""
        if not isinstance(answer, LookUp):
            raise ConfigError(f"the receiver answers a look-up with one of {_names(LookUp)}, not {_shown(answer)}")
        _check_times(times)
        self._look_ups += [answer] * times

    def forget(self) -> None:
        """Have nothing any more of what arrived until now: look-ups do not find it."""
        self._has.clear()

    def take(self, message: Message) -> Sent:
        """One message comes in."""
        told = next((each for each in self._answers if each.to in (None, message.address)), None)
        if told is not None:
            self._answers.remove(told)
        outcome = Delivered(f"receipt-{message.token[:12]}") if told is None else told.outcome
        arrived = told is None or told.arrives
        if arrived:
            self._has[message.token] = f"receipt-{message.token[:12]}"
        return Sent.of(message, outcome, arrived=arrived)

    def look_up(self, message: Message) -> LookUp:
        """Somebody asks about a message."""
        self.asked += 1
        if self._look_ups:
            return self._look_ups.pop(0)
        receipt = self._has.get(message.token)
        return NotThere() if receipt is None else Found(receipt)


class Recording:
    """The channel to a receiver. Every send is told to `hear`."""

    def __init__(self, receiver: Receiver, hear: Callable[[Sent], None]) -> None:
        self._receiver = receiver
        self._hear = hear

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        sent = self._receiver.take(message)
        self._hear(sent)
        return sent.outcome

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        return self._receiver.look_up(message)


def _check_times(times: int) -> None:
    if isinstance(times, bool) or not isinstance(times, int) or times < 1:
        raise ConfigError(f"times must be a whole number of at least 1, not {times!r}")


def _names(union: object) -> str:
    return ", ".join(each.__name__ for each in get_args(union))


def _shown(value: object) -> str:
    return f"the class {value.__name__} itself" if isinstance(value, type) else repr(value)[:60]


# As all that comes with sendonce: mail cannot be taken back, so what may have been sent is held for a person.
MAIL_POLICY = {"if_unsure": "hold"}


class RecordedChannels(Channels):
    """Every send is told to `hear`."""

    def __init__(self, receiver: Receiver, hear: Callable[[Sent], None], own: Channels | None) -> None:
        super().__init__()
        self._receiver = receiver
        self._recording = Recording(receiver, hear)
        self._hear = hear
        self.add(self._recording, "mailto", **MAIL_POLICY)
        if own is not None:
            self.update(own)

    @property
    def names(self) -> None:
        """Whatever there is."""

    def find(self, address: str, *, is_subscription: bool = False) -> Channel:
        channel = super().find(address, is_subscription=is_subscription)
        if channel is None or channel is self._recording:
            return self._recording
        return _Heard(channel, self._hear)

    def find_asking(self, address: str, *, is_subscription: bool = False, ask: str | None = None) -> LookingUp | None:
        if self.find(address, is_subscription=is_subscription) is self._recording:
            return self._recording if self._receiver.can_be_asked else None
        return super().find_asking(address, is_subscription=is_subscription, ask=ask)

    def can_look_up(self, address: str, *, is_subscription: bool = False, ask: str | None = None) -> bool:
        return self.find_asking(address, is_subscription=is_subscription, ask=ask) is not None


class _Heard:
    """Somebody's own channel, and an ear beside it."""

    def __init__(self, channel: Channel, hear: Callable[[Sent], None]) -> None:
        self._channel = channel
        self._hear = hear

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        outcome = await self._channel.send(message, timeout=timeout)
        self._hear(Sent.of(message, outcome))
        return outcome
