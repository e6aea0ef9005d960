"""The channels of a test: its own where it has one for an address, and the receiver for everything else."""

from collections.abc import Callable

from sendonce.channels.protocol import Channel, LookingUp, Message
from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import Outcome
from sendonce.testing.receiver import Receiver, Recording
from sendonce.testing.sent import Sent

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
