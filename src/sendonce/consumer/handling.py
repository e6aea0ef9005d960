"""One message in its handler's transaction: the receipt and the effect, both or neither."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from sendonce.consumer.incoming import Incoming
from sendonce.consumer.registry import Consumer
from sendonce.consumer.transactions import Transactions, is_passing
from sendonce.domain.texts import CODE_LENGTH, clean
from sendonce.errors import BadMessage
from sendonce.inbox.inbox import Inbox
from sendonce.sql.drivers import is_async

# As often a transaction that others were in the way of is tried again, with pauses that grow, before that is a failure.
TRIES, FIRST_PAUSE, LONGEST_PAUSE = 20, 0.01, 1.0


class Handled(Enum):
    """What a try came to."""

    FIRST = auto()
    DUPLICATE = auto()
    FAILED = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Result:
    """`code` and `message` say why it failed: the error's type, and nothing that it says of its own accord."""

    handled: Handled
    code: str = ""
    message: str = ""


class _TookTooLong(Exception):
    """The handler was cancelled at its limit, and its transaction rolled back."""


class Handling:
    """One slot: its connection, and how its handler is called."""

    def __init__(self, consumer: Consumer, transactions: Transactions) -> None:
        self._consumer = consumer
        self._transactions = transactions
        self._inbox = Inbox()
        self._thread = None if consumer.is_async else ThreadPoolExecutor(1, thread_name_prefix="sendonce-handler")
        self._is_left = False

    async def handle(self, message: Incoming) -> Result:
        """Try once. Raises only what is the database's, for which the message cannot be blamed."""
        pause = FIRST_PAUSE
        for tried in range(1, TRIES + 1):
            try:
                is_first = await self._tried(message)
                return Result(Handled.FIRST if is_first else Handled.DUPLICATE)
            except BadMessage as error:
                return Result(Handled.REFUSED, "bad_message", str(error))
            except _TookTooLong:
                seconds = self._consumer.policy.timeout.total_seconds()
                return Result(Handled.FAILED, "timeout", f"the handler took longer than {seconds:g} s")
            except Exception as error:  # a handler's own fault; its text may hold what is secret
                if not is_passing(error):
                    return Result(Handled.FAILED, clean(type(error).__name__, CODE_LENGTH), _where(error))
                if tried == TRIES:
                    raise
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311, so that two do not meet again
            pause = min(pause * 2, LONGEST_PAUSE)
        raise AssertionError("the last try returns or raises")

    async def close(self) -> None:
        """Give the connection back. A thread cannot be ended: a handler that is left in one keeps its connection."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)
        if not self._is_left:
            await self._transactions.close()

    async def _tried(self, message: Incoming) -> bool:
        if self._thread is not None:
            try:
                return await asyncio.get_running_loop().run_in_executor(self._thread, self._in_thread, message)
            except asyncio.CancelledError:
                self._is_left = True
                raise
        limit = asyncio.timeout(self._consumer.policy.timeout.total_seconds())
        try:
            async with limit, self._transactions.abegin() as connection:
                return await self._on(connection, message)
        except TimeoutError:
            if limit.expired():
                raise _TookTooLong from None
            raise

    async def _on(self, connection: Any, message: Incoming) -> bool:
        if not is_async(connection):
            with self._inbox.once(connection, self._consumer.name, message.id) as first:
                if first:
                    await self._consumer.handler(connection, message)
            return bool(first)
        async with self._inbox.aonce(connection, self._consumer.name, message.id) as first:
            if first:
                await self._consumer.handler(connection, message)
        return bool(first)

    def _in_thread(self, message: Incoming) -> bool:
        with self._transactions.begin() as connection:
            with self._inbox.once(connection, self._consumer.name, message.id) as first:
                if first:
                    self._consumer.handler(connection, message)
            return bool(first)


def _where(error: BaseException) -> str:
    """Name the error and the handler's own line that raised it, without a word of its text."""
    from sendonce.channels.protocol import named

    return named(error)
