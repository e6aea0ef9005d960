"""An app for `sendonce consume --app`: handlers that do to a bank what each message says, and dies where it is told."""

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Any

from sendonce.consumer import Consumers, Incoming
from tests.consumer.working import deduct
from tests.crash import killing as killing  # installs the point where this process dies, if it is to

consumers = Consumers()


def fails(said: dict[str, Any]) -> bool:
    """Whether a handler is to raise: always, or as long as a file is not there."""
    return bool(said.get("fail")) or not Path(said.get("needs", "/")).exists()


def waits(said: dict[str, Any]) -> bool:
    """Whether the file is not there that a handler is to wait for. Another one says that it does."""
    if "wait" not in said:
        return False
    Path(f"{said['wait']}.begun").touch()
    return not Path(said["wait"]).exists()


@consumers.consumer("wallet", "nats:main/payments", first_delay="10ms", longest_delay="10ms", max_attempts=3)
async def wallet(connection: Any, message: Incoming) -> None:
    """Deduct; fail if the message says so, or names a file that it needs; wait for another file if it names one."""
    await deduct(connection, message)
    said = message.json()
    if fails(said):
        raise ValueError("the amount is secret")
    while waits(said):
        await asyncio.sleep(0.02)


@consumers.consumer("plain", "nats:main/payments")
def plain(connection: Any, message: Incoming) -> None:
    """The same in a thread."""
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    connection.execute(f"insert into account values ({mark}, {mark})", (message.id, message.json()["amount"]))
    while waits(message.json()):
        time.sleep(0.02)
