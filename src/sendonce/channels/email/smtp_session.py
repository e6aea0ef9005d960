"""Open connections to a mail server, one mail at a time on each, and what its answers mean."""

import asyncio
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import IntEnum
from typing import cast

import aiosmtplib
from aiosmtplib.protocol import SMTPProtocol

from sendonce.channels.email.mime import Letter
from sendonce.channels.email.smtp_settings import SmtpSettings
from sendonce.channels.protocol import lack_of
from sendonce.domain.answers import (
    ACCOUNT,
    CLOSING,
    CREDENTIALS,
    LACKING,
    MAIL_BUSY,
    MISUNDERSTOOD,
    NO_SMTPUTF8,
    RECIPIENT_BUSY,
    SERVER,
    SMTP_REFUSED,
)
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Outcome
from sendonce.domain.texts import RESPONSE_LENGTH, clean

_ENHANCED = re.compile(r"\s*([245]\.\d{1,3}\.\d{1,3})\b")
_RELAYING = re.compile(r"\brelay", re.IGNORECASE)
_LOG_IN = {530, 534, 535, 538}
_PROTOCOL = {500, 502, 503}
_TOO_LARGE = {552}
_CLOSING = 421
_NOT_LOGGED_IN = "the mail server wants us to log in, or does not accept our user and password"
_OURS = {
    "5.7.8": replace(CREDENTIALS, message="the mail server does not accept our user and password"),
    "5.7.9": replace(CREDENTIALS, message="the mail server wants another way to log in"),
    "5.7.60": replace(ACCOUNT, message="the mail server does not let us send as this sender"),
    "5.4.5": replace(ACCOUNT, message="the mail server says that our sending limit is reached"),
}


class SmtpStep(IntEnum):
    """The steps of sending a mail. From FINAL on it may have been accepted."""

    WAITING = 0
    CONNECTING = 1
    MAIL = 2
    RCPT = 3
    DATA = 4
    FINAL = 5


def meaning(step: SmtpStep, code: int, text: str) -> Outcome:
    """Return what a refusal (4xx or 5xx) of this step means."""
    said = response(code, text)
    if code < 500:
        return replace(_busy(step, code), code=f"smtp_{code}", response=said)
    ours = _our_fault(step, code, text)
    if ours is not None:
        return replace(ours, response=said)
    return replace(SMTP_REFUSED, code=f"smtp_{code}", response=said)


def response(code: int, text: str) -> str:
    """The answer as it is kept for the operator."""
    return clean(f"{code} {text}", RESPONSE_LENGTH)


def _busy(step: SmtpStep, code: int) -> Failed:
    """Who is not ready: the server itself, or it for this one recipient (greylisting, a full mailbox), or this mail."""
    if code == _CLOSING:
        return CLOSING
    return RECIPIENT_BUSY if step is SmtpStep.RCPT else MAIL_BUSY


def _our_fault(step: SmtpStep, code: int, text: str) -> Deferred | None:
    enhanced = _ENHANCED.match(text)
    if code in _LOG_IN:
        return replace(CREDENTIALS, message=_NOT_LOGGED_IN)
    if code in _PROTOCOL:
        return MISUNDERSTOOD
    if enhanced is not None and enhanced[1] in _OURS:
        return _OURS[enhanced[1]]
    if step is SmtpStep.RCPT and _RELAYING.search(text):
        return replace(ACCOUNT, message="the mail server does not relay mails for us")
    if step is SmtpStep.MAIL and code not in _TOO_LARGE:
        return _OURS["5.7.60"]
    return None


_DOTS = re.compile(rb"^\.", re.MULTILINE)
_PIECE = 65_536
_FLUSH_SECONDS = 0.005


class OurFault(Exception):
    """There is no connection, and the fault is on our side."""

    def __init__(self, outcome: Deferred) -> None:
        super().__init__(outcome.code)
        self.outcome = outcome


class ConnectionLost(Exception):
    """The connection is gone (connection_lost), or what came over it was not SMTP (malformed_answer)."""

    def __init__(self, code: str = "connection_lost") -> None:
        super().__init__(code)
        self.code = code


class SmtpProgress:
    """How far one mail has come. `before_final` is called when all but the final dot has left us."""

    __slots__ = ("before_final", "step")

    def __init__(self) -> None:
        self.step = SmtpStep.WAITING
        self.before_final: Callable[[], None] = lambda: None


class SmtpSession:
    """A connection that is logged in. `is_ready`: the next mail may begin, nothing of the last one is left."""

    def __init__(self, client: aiosmtplib.SMTP) -> None:
        self._client = client
        self._needs_reset = False
        self.is_ready = False
        self.used_at = 0.0

    @classmethod
    async def open(cls, settings: SmtpSettings, tls: ssl.SSLContext | None) -> "SmtpSession":
        """Connect, encrypt and log in; OurFault says why that did not work.

        What the server says until then is not kept: some repeat the line with our password in it.
        """
        session = cls(
            aiosmtplib.SMTP(
                hostname=settings.host,
                port=settings.port,
                username=settings.user,
                password=settings.password,
                local_hostname=settings.hello,
                timeout=None,
                use_tls=settings.security == "tls",
                start_tls=settings.security == "starttls",
                tls_context=tls,
            )
        )
        try:
            await session._client.connect()
            if session._client.is_ehlo_or_helo_needed:
                await session._client.ehlo()
            session.is_ready = True
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            raise OurFault(why_not_open(error)) from None
        finally:
            if not session.is_ready:
                session.drop()
        return session

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected

    async def begin(self, letter: Letter, progress: SmtpProgress) -> Outcome | None:
        """Reset what is left of the last mail and announce the sender; the outcome when the server says no."""
        self.is_ready = False
        progress.step = SmtpStep.MAIL
        if self._needs_reset and (await self._command(b"RSET"))[0] != 250:
            raise ConnectionLost
        self._needs_reset = False
        if letter.is_international and not self._client.supports_extension("smtputf8"):
            return self._end(NO_SMTPUTF8)
        options = [b"SMTPUTF8"] if letter.is_international else []
        if self._client.supports_extension("size"):
            options.append(b"SIZE=%d" % len(letter.data))
        code, text = await self._command(b"MAIL", b"FROM:<%b>" % letter.sender.encode(), *options)
        self._needs_reset = True
        return None if code == 250 else self._no(progress.step, code, text)

    async def finish(self, letter: Letter, progress: SmtpProgress) -> Outcome:
        """Name the recipient, hand over the mail and say what came of it."""
        progress.step = SmtpStep.RCPT
        code, text = await self._command(b"RCPT", b"TO:<%b>" % letter.recipient.encode())
        if code not in (250, 251):
            return self._no(progress.step, code, text)
        progress.step = SmtpStep.DATA
        code, text = await self._command(b"DATA")
        if code != 354:
            return self._no(progress.step, code, text)
        await self._write_all(_DOTS.sub(b"..", letter.data))
        progress.before_final()
        protocol = self._write(b".\r\n")
        progress.step = SmtpStep.FINAL
        try:
            code, text = await protocol.read_response()
        except aiosmtplib.SMTPException as error:
            raise _lost(error) from error
        self._needs_reset = False
        if code != 250:
            return self._no(progress.step, code, text)
        return self._end(Delivered(letter.message_id, response=response(code, text)))

    def drop(self) -> None:
        """Cut the connection: what is not written yet is never written."""
        if self._client.transport is not None:
            cast(asyncio.WriteTransport, self._client.transport).abort()
        self._client.close()

    def leave(self) -> None:
        """Send QUIT and close without waiting for the answer."""
        with suppress(ConnectionLost):
            self._write(b"QUIT\r\n")
        self.drop()

    def _no(self, step: SmtpStep, code: int, text: str) -> Outcome:
        if not 400 <= code < 600:
            raise ConnectionLost("malformed_answer")
        return self._end(meaning(step, code, text))

    def _end(self, outcome: Outcome) -> Outcome:
        self.is_ready = True
        self.used_at = asyncio.get_running_loop().time()
        return outcome

    async def _command(self, *words: bytes) -> tuple[int, str]:
        try:
            return await self._client.execute_command(*words)
        except aiosmtplib.SMTPException as error:
            raise _lost(error) from error

    def _write(self, data: bytes) -> SMTPProtocol:
        if self._client.protocol is None:
            raise ConnectionLost
        try:
            self._client.protocol.write(data)
        except aiosmtplib.SMTPException as error:
            raise _lost(error) from error
        return self._client.protocol

    async def _write_all(self, data: bytes) -> None:
        """Return when it has left us: until then the final dot has surely not gone out.

        In pieces, because TLS does not tell of what it has passed on, and holds back only the piece after that.
        """
        for begin in range(0, len(data), _PIECE):
            protocol = self._write(data[begin : begin + _PIECE])
            pause = 0.0
            while protocol.is_connected and cast(asyncio.WriteTransport, protocol.transport).get_write_buffer_size():
                await asyncio.sleep(pause)
                pause = _FLUSH_SECONDS
            if not protocol.is_connected:
                raise ConnectionLost


def why_not_open(error: Exception) -> Deferred:
    """Whatever keeps us from a session with our own mail server is ours; nothing that it said is repeated."""
    if isinstance(error, aiosmtplib.SMTPAuthenticationError):
        trouble = CREDENTIALS if error.code >= 500 else SERVER
        return replace(trouble, message=f"the mail server does not let us log in: {error.code}")
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return replace(SERVER, message=f"the mail server does not begin a session: {error.code}")
    cause = error.__cause__ or error
    if (lacking := lack_of(cause)) is not None:
        return replace(LACKING, message=lacking)
    if isinstance(cause, ssl.SSLError):
        return replace(SERVER, message=f"no TLS with the mail server: {cause.reason or 'it failed'}")
    if isinstance(cause, OSError | ValueError):
        return replace(SERVER, message=f"the mail server cannot be reached: {type(cause).__name__}")
    return replace(SERVER, message="the mail server does not offer STARTTLS, or no way to log in that we know")


def _lost(error: aiosmtplib.SMTPException) -> ConnectionLost:
    return (
        ConnectionLost("malformed_answer") if isinstance(error, aiosmtplib.SMTPResponseException) else ConnectionLost()
    )


IDLE_SECONDS = 30.0
# After a failure of ours nobody dials for so long: a server that refuses our password locks us out for trying on.
REST_SECONDS = 1.0
REST_AFTER_LOG_IN_SECONDS = 30.0


class Pool:
    """The connection used last is taken first. Whoever uses one holds one of the `slots`."""

    def __init__(self, settings: SmtpSettings, tls: ssl.SSLContext | None) -> None:
        self._settings = settings
        self._tls = tls
        self._idle: list[SmtpSession] = []
        self.slots = asyncio.Semaphore(settings.pool)
        self._sweeping: asyncio.TimerHandle | None = None
        self._trouble: Deferred | None = None
        self._rest_until = 0.0

    def reuse(self) -> SmtpSession | None:
        """A connection that was open a moment ago, if there is one."""
        while self._idle:
            session = self._idle.pop()
            if session.is_connected and asyncio.get_running_loop().time() - session.used_at < IDLE_SECONDS:
                return session
            session.leave()
        return None

    async def open(self) -> SmtpSession:
        """A new connection; OurFault says why there is none."""
        now = asyncio.get_running_loop().time()
        if self._trouble is not None and now < self._rest_until:
            raise OurFault(self._trouble)
        try:
            session = await SmtpSession.open(self._settings, self._tls)
        except OurFault as trouble:
            self._trouble = trouble.outcome
            log_in = trouble.outcome.code == CREDENTIALS.code
            self._rest_until = now + (REST_AFTER_LOG_IN_SECONDS if log_in else REST_SECONDS)
            raise
        self._trouble = None
        return session

    def give_back(self, session: SmtpSession) -> None:
        """Keep it for the next mail, or cut it when something of the last one is left on it."""
        if not session.is_ready or not session.is_connected:
            session.drop()
            return
        self._idle.append(session)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep)

    async def close(self) -> None:
        """Close every connection that is not in use, with QUIT."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        idle, self._idle = self._idle, []
        for session in idle:
            session.leave()
        await asyncio.sleep(0)  # the loop closes the sockets in its next round

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        old = loop.time() - IDLE_SECONDS
        for session in self._idle:
            if session.used_at <= old:
                session.leave()
        self._idle = [session for session in self._idle if session.used_at > old]
        self._sweeping = loop.call_later(IDLE_SECONDS, self._sweep) if self._idle else None
