"""Mail servers on loopback: a real one, with TLS and log-in, and one that says or does what it is told at each step."""

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from sendonce.channels.email.smtp import SmtpChannel
from sendonce.channels.email.smtp_settings import SmtpSettings
from sendonce.channels.protocol import Message
from sendonce.domain.emails import Email
from sendonce.engine.attempt import message_of
from tests.channels.troubles import HOST, authority, hang_up, raw_server, reset, server_context
from tests.domain.values import a_claim

SENDER = "Shop <shop@example.com>"
LETTER = Email("ada@example.com", subject="Saved", text="Your memo is saved.")


def mail_message(mail: Email | None = LETTER, **changes: object) -> Message:
    """A message for this mail; without one, for the event's payload."""
    address = "mailto:ada@example.com" if mail is None else mail.uri
    content = None if mail is None else mail.content()
    return message_of(a_claim(**{"destination": address, "address": address, "content": content} | changes), "here")


def settings_for(port: int, **changes: Any) -> SmtpSettings:
    return SmtpSettings(**{"host": HOST, "port": port, "sender": SENDER, "security": "plain", **changes})


def trusted(folder: Path) -> str:
    """The file that makes our channels trust our servers."""
    file = folder / "ca.pem"
    authority().cert_pem.write_to_path(file)
    return str(file)


@asynccontextmanager
async def channel_to(port: int, **changes: Any) -> AsyncIterator[SmtpChannel]:
    channel = SmtpChannel(settings_for(port, **changes))
    try:
        yield channel
    finally:
        await channel.close()


@dataclass
class MailServer:
    """What a real server has taken, and over which connections."""

    port: int = 0
    envelopes: list[Envelope] = field(default_factory=list)
    connections: list[SMTP] = field(default_factory=list)
    ciphers: list[object] = field(default_factory=list)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.envelopes.append(envelope)
        self.ciphers.append(server.transport.get_extra_info("cipher") if server.transport else None)
        return f"250 2.0.0 queued as {len(self.envelopes)}"

    @property
    def mails(self) -> list[bytes]:
        return [bytes(each.original_content or b"") for each in self.envelopes]

    def drop_connections(self) -> None:
        for connection in self.connections:
            if connection.transport is not None:
                cast(asyncio.WriteTransport, connection.transport).abort()


@asynccontextmanager
async def mail_server(
    *, tls: bool = False, starttls: bool = False, password: str | None = None, **options: Any
) -> AsyncIterator[MailServer]:
    """A server that takes mails, with TLS from the start or after STARTTLS, and a password for the user `shop`."""
    server = MailServer()

    def authenticate(_: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object) -> AuthResult:
        known = isinstance(data, LoginPassword) and (data.login, data.password) == (b"shop", (password or "").encode())
        return AuthResult(success=known, handled=False)

    if password is not None:
        options |= {"authenticator": authenticate, "auth_required": True, "auth_require_tls": starttls}
    context = server_context() if tls or starttls else None
    options |= {"tls_context": context if starttls else None, "require_starttls": starttls}
    loop = asyncio.get_running_loop()

    def connected() -> SMTP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it does not know that TLS may be there from the start
            connection = SMTP(server, hostname="mail.example.com", loop=loop, **{"enable_SMTPUTF8": True} | options)
        server.connections.append(connection)
        return connection

    listener = await loop.create_server(connected, HOST, 0, ssl=context if tls else None)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        server.drop_connections()
        await listener.wait_closed()


RESET, CLOSE, STALL, CUT = "reset", "close", "stall", "cut"
_YES = {"greeting": "220 hello", "EHLO": "250 hello", "DATA": "354 go on", ".": "250 2.0.0 queued as 1"}


@dataclass
class Scripted:
    """A server that plays a script: what to say, or do, at each step; the last of several again and again.

    `half` is in the middle of a mail, `.` at its end.
    """

    script: Mapping[str, str | list[str]]
    port: int = 0
    connections: int = 0
    commands: list[str] = field(default_factory=list)
    mails: list[bytes] = field(default_factory=list)
    stalls: int = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        step = "greeting"
        try:
            while said := await self._play(step, reader, writer):
                step = await self._next(reader, is_mail=step == "DATA" and said.startswith("354"))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def _next(self, reader: asyncio.StreamReader, *, is_mail: bool) -> str:
        if is_mail and "half" in self.script:
            await reader.readexactly(1000)
            return "half"
        if is_mail:
            self.mails.append(await reader.readuntil(b"\r\n.\r\n"))
            return "."
        self.commands.append((await reader.readuntil(b"\r\n")).decode().strip())
        return self.commands[-1].split()[0].upper()

    async def _play(self, step: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """What was said; nothing when the connection is over."""
        told = self.script.get(step, _YES.get(step, "250 ok"))
        answer = told if isinstance(told, str) else told.pop(0) if len(told) > 1 else told[0]
        if answer == RESET:
            reset(writer)
        elif answer == CLOSE:
            hang_up(writer)
        elif answer == CUT:
            writer.write(b"250-2.0.0 queu")
            hang_up(writer)
        elif answer == STALL:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            self.stalls += 1
            await asyncio.Event().wait()
        else:
            writer.write(answer.encode() + b"\r\n")
            return answer
        return ""


@asynccontextmanager
async def scripted(
    script: Mapping[str, str | list[str]], context: ssl.SSLContext | None = None
) -> AsyncIterator[Scripted]:
    server = Scripted(script)
    async with raw_server(server.connected, context=context) as server.port:
        yield server
