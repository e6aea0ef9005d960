"""The receiver's mail side: an SMTP sink. A mail's token is its Idempotency-Key, else its Message-ID."""

import asyncio
from datetime import UTC, datetime
from email import policy
from email.parser import BytesHeaderParser
from typing import cast
from weakref import WeakSet

from aiosmtpd.smtp import SMTP, Envelope, Session

from sendonce.devtools.receive.handler import MAIL, Handler, Reply
from sendonce.devtools.receive.memory import Arrival

LARGEST_MAIL = 32 * 1024 * 1024
_PARSER = BytesHeaderParser(policy=policy.default)


class MailSink:
    """Takes mails. A mail to several is one message; its path names them all."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._taking: set[asyncio.Task[Reply]] = set()
        self.connections: WeakSet[SMTP] = WeakSet()

    def __call__(self) -> SMTP:
        """The protocol of one connection."""
        made = SMTP(self, hostname="localhost", ident="sendonce", data_size_limit=LARGEST_MAIL, enable_SMTPUTF8=True)
        self.connections.add(made)
        return made

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """What aiosmtpd asks for every mail, by this name."""
        transport = server.transport
        taking = asyncio.create_task(
            self._handler.take(_arrival(envelope), lambda: transport is None or transport.is_closing())
        )
        self._taking.add(taking)
        taking.add_done_callback(self._taking.discard)
        # aiosmtpd cuts this off when the sender hangs up: what became of the mail is to be told all the same.
        answer = await asyncio.shield(taking)
        if answer.status is None:
            if transport is not None:
                cast(asyncio.WriteTransport, transport).abort()
            return "421 gone"
        if answer.status >= 300:
            return f"{answer.status} turned away, as told"
        return f"250 OK {answer.id}" if answer.id else "250 OK"


def _arrival(envelope: Envelope) -> Arrival:
    content = envelope.content
    body = content if isinstance(content, bytes) else str(content or "").encode()
    parsed = _PARSER.parsebytes(body)
    headers = {name: str(value) for name, value in parsed.items()}
    return Arrival(
        at=datetime.now(UTC),
        method=MAIL,
        path=f"mailto:{','.join(envelope.rcpt_tos)}",
        token=headers.get("Idempotency-Key") or headers.get("Message-ID", "").strip().strip("<>"),
        attempt=None,
        body=body,
        headers={"From": envelope.mail_from or "", **headers},
        subject=headers.get("Subject"),
    )
