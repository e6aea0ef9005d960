"""A mail to send, read from a message's content, or made from its payload. What every mail channel begins with."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sendonce.channels.protocol import Message
from sendonce.domain import emails
from sendonce.domain.answers import BAD_CONTENT
from sendonce.domain.outcomes import Refused
from sendonce.errors import BadDestination


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file; its bytes as base64, the way providers take them."""

    filename: str
    content_type: str
    content: str = field(repr=False)

    @property
    def data(self) -> bytes:
        return base64.b64decode(self.content)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Mail:
    """The same for every attempt of one delivery. Holds nothing that an Email may not: every header is one line."""

    recipient: str
    sender: str
    subject: str
    text: str
    html: str | None = None
    reply_to: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()

    @classmethod
    def of(cls, message: Message, default_sender: str) -> "Mail | Refused":
        """The mail of a message; what cannot be one is refused, with what is wrong about it."""
        try:
            parts = json.loads(message.body) if message.has_content else _plain(message)
            mail = _read(parts, message.address.removeprefix("mailto:"), default_sender)
            _check(mail)
        except BadDestination as wrong:
            return replace(BAD_CONTENT, message=str(wrong))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return replace(BAD_CONTENT, message="its content is not an e-mail in valid text; give it with Email(…)")
        return mail


def _plain(message: Message) -> dict[str, Any]:
    """A mail for an event that brought none: the payload, to be read by a person."""
    return {"subject": message.type, "text": json.dumps(json.loads(message.body), ensure_ascii=False, indent=2)}


def _read(parts: Mapping[str, Any], recipient: str, default_sender: str) -> Mail:
    """The mail as Email.content() has written it; anything else raises."""
    return Mail(
        recipient=recipient,
        sender=parts.get("sender") or default_sender,
        subject=parts.get("subject") or "",
        text=parts.get("text") or "",
        html=parts.get("html") or None,
        reply_to=parts.get("reply_to") or None,
        headers=dict(parts.get("headers") or {}),
        attachments=tuple(
            Attachment(filename=each["filename"], content_type=each["content_type"], content=each["content"])
            for each in parts.get("attachments") or ()
        ),
    )


def _check(mail: Mail) -> None:
    """The rules that hold when an Email is recorded hold for what an operator corrected, too."""
    files = [
        emails.Attachment(each.filename, base64.b64decode(each.content, validate=True), each.content_type)
        for each in mail.attachments
    ]
    emails.Email(mail.recipient, mail.subject, mail.text, mail.html, mail.sender, mail.reply_to, mail.headers, files)
    names = [each.filename for each in mail.attachments]
    lines = [mail.recipient, mail.sender, mail.subject, mail.reply_to or "", *mail.headers.values(), *names]
    "".join([*lines, mail.text, mail.html or ""]).encode()
