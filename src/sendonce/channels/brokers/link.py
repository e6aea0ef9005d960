"""The one connection of a profile: opened by the first send and under a lock, opened again with growing pauses."""

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Generic, TypeVar

from sendonce.channels.protocol import lack_of
from sendonce.domain.answers import BROKER_AWAY, LACKING
from sendonce.domain.outcomes import Deferred, Failed, LookUp, NoAnswer, Outcome

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 3.0
# Connecting gives up a little earlier than the send: then it is sure that nothing was sent.
SHARE = 0.9

Connection = TypeVar("Connection")


class NotOpen(Exception):
    """There is no connection; nothing of any message was written."""

    def __init__(self, outcome: Failed | Deferred) -> None:
        super().__init__(outcome.code)
        self.outcome = outcome


class Link(Generic[Connection]):
    """`dial` opens a connection or raises NotOpen; `is_open` tells whether one still serves.

    While the other side is away, one send dials after each pause; the others learn at once what it came to.
    """

    def __init__(self, dial: Callable[[], Awaitable[Connection]], is_open: Callable[[Connection], bool]) -> None:
        self._dial = dial
        self._is_open = is_open
        self._lock = asyncio.Lock()
        self._pause = 0.0
        self._not_before = 0.0
        self._trouble: Failed | Deferred = BROKER_AWAY
        self.connection: Connection | None = None

    async def open(self, timeout: float) -> Connection:
        """The connection, after dialling where there is none; NotOpen within `timeout` seconds."""
        if self.connection is not None and self._is_open(self.connection):
            return self.connection
        try:
            async with asyncio.timeout(timeout * SHARE):
                async with self._lock:
                    return await self._dialled()
        except TimeoutError:
            trouble = replace(BROKER_AWAY, code="connect_timeout", message="no connection came about in time")
            self._missed(trouble)
            raise NotOpen(trouble) from None

    async def _dialled(self) -> Connection:
        if self.connection is not None and self._is_open(self.connection):
            return self.connection
        if time.monotonic() < self._not_before:
            raise NotOpen(self._trouble)
        try:
            self.connection = await self._dial()
        except NotOpen as error:
            self._missed(error.outcome)
            raise
        self._pause = self._not_before = 0.0
        return self.connection

    def _missed(self, trouble: Failed | Deferred) -> None:
        self._trouble = trouble
        self._pause = min(max(self._pause * 2, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        self._not_before = time.monotonic() + self._pause


def away(error: BaseException) -> Failed | Deferred:
    """What it means that no connection came about: by the system's error, whatever a client wrapped around it."""
    if (lacking := lack_of(error)) is not None:
        return replace(LACKING, message=lacking)
    match error:
        case ssl.SSLError():
            return replace(BROKER_AWAY, code="tls_error", message="no trusted TLS connection came about")
        case socket.gaierror():
            return replace(BROKER_AWAY, code="dns_error", message="the host's name leads nowhere")
        case TimeoutError():
            return replace(BROKER_AWAY, code="connect_timeout", message="no connection came about in time")
        case OSError(errno=errno.ECONNREFUSED):
            return replace(BROKER_AWAY, code="connection_refused", message="nobody listens there")
    return BROKER_AWAY


def asked(outcome: Outcome) -> LookUp:
    """Return the answer of a look-up that could not be made: never that the message is not there."""
    code, message = getattr(outcome, "code", ""), getattr(outcome, "message", "")
    return NoAnswer(code, message, fault=getattr(outcome, "fault", None))
