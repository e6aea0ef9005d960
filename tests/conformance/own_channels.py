"""An app for `sendonce worker --app`: channels of one's own; their other side is a folder with a file per message."""

import os
from pathlib import Path

from sendonce.channels import Accepted, Channels, Delivered, Found, LookUp, Message, NotThere, Outcome

FOLDER = "SENDONCE_TEST_FOLDER"

channels = Channels()


def _file(message: Message) -> Path:
    return Path(os.environ[FOLDER]) / message.token


def _keep(message: Message) -> None:
    """One line for each time that it was sent."""
    with _file(message).open("a") as file:
        file.write(f"{message.address} {message.body}\n")


@channels.channel("pager", if_unsure="hold")
async def send_page(message: Message, *, timeout: float) -> Outcome:
    """Cannot be asked, and gives no id."""
    _keep(message)
    return Delivered()


@channels.channel("silent")
class Silent:
    """Can be asked, but gives no id when it takes a message."""

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        _keep(message)
        return Delivered()

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        return Found(f"box-{message.token[:8]}") if _file(message).exists() else NotThere()


@channels.channel("liar", max_attempts=3)
class Liar:
    """Says that it took a message, without an id, and has nothing."""

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        return Delivered()

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        return NotThere()


@channels.channel("queued")
class Queued:
    """Takes a message with an id and confirms it only when it is asked by that id."""

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        _keep(message)
        return Accepted(f"ticket-{message.attempt}")

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        return Found(message.notification_id) if message.notification_id == "ticket-1" else NotThere()
