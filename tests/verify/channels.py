"""An app for `sendonce worker --app`: a channel that does everything a channel can do to a delivery."""

import asyncio
import random

from sendonce.channels import Accepted, Channels, Delivered, Failed, Found, LookUp, Message, NotThere, Outcome, Refused
from sendonce.domain.outcomes import Deferred, Unknown

STUCK = "any:stuck"

channels = Channels()
_chance = random.Random()


@channels.channel("any")
class Anything:
    """Answers one way or the other, sometimes after its lease; and can be asked. What is stuck is not answered."""

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        if message.address == STUCK and message.attempt == 1:
            await asyncio.Event().wait()
        await asyncio.sleep(_chance.choice([0, 0, 0.01, 0.1]))
        answers: list[Outcome] = [
            *(Delivered("n"), Delivered("m"), Accepted("a"), Refused("410")),
            *(Failed("503"), Unknown("cut"), Deferred("x")),
        ]
        return _chance.choice(answers)

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        answers: list[LookUp] = [Found("n"), NotThere()]
        return _chance.choice(answers)
