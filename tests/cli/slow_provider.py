"""A provider that never answers a look-up, for commands that are interrupted."""

import asyncio

from sendonce.channels.protocol import Message
from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import Delivered, LookUp, NotThere, Outcome

channels = Channels()


@channels.channel("asked", timeout="20s")
class Slow:
    async def send(self, message: Message, *, timeout: float) -> Outcome:
        return Delivered("never")

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        await asyncio.Event().wait()
        return NotThere()
