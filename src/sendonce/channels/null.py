"""null: accepts everything and sends nothing, for trying things out and for benchmarks."""

from sendonce.channels.protocol import Message
from sendonce.domain.outcomes import Delivered, Outcome

_DELIVERED = Delivered()


class NullChannel:
    async def send(self, message: Message, *, timeout: float) -> Outcome:
        return _DELIVERED
