"""A consumer in a process of its own, with a handler that ends it.

python -m tests.consumer.killed KIND ADDRESS NAME DATABASE

The body says which message does: {"amount": 5, "kills": true}. It runs until it is killed.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from sendonce.consumer.incoming import Incoming
from tests.consumer.brokers import KINDS
from tests.consumer.working import Bank, deduct, working

PATIENCE = 2.0


async def deduct_or_die(connection: Any, message: Incoming) -> None:
    await deduct(connection, message)
    if message.json().get("kills"):
        os.kill(os.getpid(), signal.SIGKILL)


async def main(kind: str, address: str, name: str, database: str) -> None:
    async with working(Bank(database), KINDS[kind](address, name), deduct_or_die, patience=PATIENCE):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
