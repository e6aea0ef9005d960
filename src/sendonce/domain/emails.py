"""An e-mail with its content: checked, so that no header can be smuggled in, and rendered when it is recorded."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sendonce.domain.destinations import normalise
from sendonce.errors import BadDestination

LONGEST_LINE = 900
LONGEST_NAME = 50
LARGEST_ATTACHMENTS = 10_000_000
KEY_HEADER = "Idempotency-Key"
# What breaks a line somewhere: every control character but the tab, and Unicode's own separators.
_NOT_ONE_LINE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_HEADER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_NAMED = re.compile(r"([^<>]*)<([^<>]+)>")
_CONTENT_TYPE = re.compile(r"(?!multipart/|message/)[\w.+-]+/[\w.+-]+(?:; ?[\w-]+=[\w.+-]+)*", re.ASCII | re.IGNORECASE)
_OURS = {
    "from", "to", "cc", "bcc", "subject", "reply-to", "sender", "date", "message-id", "mime-version", "return-path",
    "received", "delivered-to", "envelope-to", "dkim-signature", "domainkey-signature", "authentication-results",
    KEY_HEADER.lower(),
}  # fmt: skip
_OUR_FAMILIES = ("content-", "resent-", "arc-", "received-")


class Mailbox(NamedTuple):
    """An address whose domain is ASCII, and the name shown beside it, if there is one."""

    name: str
    address: str

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that comes with an e-mail."""

    filename: str
    content: bytes = field(repr=False)
    content_type: str = "application/octet-stream"

    def __post_init__(self) -> None:
        _check_line("an attachment's filename", self.filename)
        if not self.filename.strip() or "/" in self.filename or "\\" in self.filename:
            raise BadDestination("an attachment's filename must be a name like report.pdf, not a path")
        if not isinstance(self.content, bytes):
            raise BadDestination(f"an attachment's content must be bytes, not {type(self.content).__name__}")
        _check_line("an attachment's content_type", self.content_type)
        if not _CONTENT_TYPE.fullmatch(self.content_type):
            raise BadDestination(
                "an attachment's content_type must be like application/pdf; a mail is attached as"
                " application/octet-stream"
            )


@dataclass(frozen=True, slots=True)
class Email:
    """An e-mail: `Email("ada@example.com", subject="Saved", text="Your memo is saved.")`.

    `sender` and `reply_to` may have a name: `Shop <shop@example.com>`. Without a sender the channel's own is used.
    """

    to: str
    subject: str = ""
    text: str = ""
    html: str | None = None
    sender: str | None = None
    reply_to: str | None = None
    headers: Mapping[str, str] | None = None
    attachments: Sequence[Attachment] = ()

    def __post_init__(self) -> None:
        _check_line("an e-mail's subject", self.subject)
        for name in ("sender", "reply_to"):
            if getattr(self, name) is not None:
                parse_mailbox(f"an e-mail's {name}", getattr(self, name))
        _check_headers(self.headers or {})
        if not isinstance(self.text, str) or not isinstance(self.html, str | None):
            raise BadDestination("an e-mail's text and html must be text")
        if not self.text and not self.html:
            raise BadDestination("an Email needs text or html")
        if any(not isinstance(each, Attachment) for each in self.attachments):
            raise BadDestination('attachments are a list like [Attachment("report.pdf", content)]')
        size = sum(len(each.content) for each in self.attachments)
        if size > LARGEST_ATTACHMENTS:
            raise BadDestination(
                f"the attachments are {size} bytes together, more than the {LARGEST_ATTACHMENTS} allowed;"
                " store them and send a link"
            )

    @property
    def uri(self) -> str:
        return f"mailto:{self.to}"

    def content(self) -> str:
        parts = {
            "subject": self.subject,
            "text": self.text,
            "html": self.html,
            "sender": self.sender,
            "reply_to": self.reply_to,
            "headers": dict(self.headers) if self.headers else None,
            "attachments": [_rendered(each) for each in self.attachments] or None,
        }
        return json.dumps({k: v for k, v in parts.items() if v is not None}, ensure_ascii=False, sort_keys=True)


def parse_mailbox(what: str, text: str) -> Mailbox:
    """Read `ada@example.com` or `Ada <ada@example.com>`; BadDestination says that `what` is neither."""
    _check_line(what, text)
    named = _NAMED.fullmatch(text.strip())
    name, address = named.groups() if named else ("", text)
    name = name.strip()
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    try:
        return Mailbox(name, normalise(f"mailto:{address.strip()}").removeprefix("mailto:"))
    except BadDestination:
        raise BadDestination(f"{what} must be like shop@example.com or Shop <shop@example.com>") from None


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        _check_line("an e-mail's header", name)
        _check_line(f"the header {name!r}", value)
        if len(name) > LONGEST_NAME or not _HEADER_NAME.fullmatch(name):
            raise BadDestination(f"{name!r} is not a header's name; use letters, digits and -, like X-Campaign")
        if name.lower() in _OURS or name.lower().startswith(_OUR_FAMILIES):
            raise BadDestination(f"the header {name} cannot be given: it is written from the e-mail's own parts")
    if len({name.lower() for name in headers}) < len(headers):
        raise BadDestination("a header is given twice, in two spellings")


def _check_line(what: str, text: object) -> None:
    if not isinstance(text, str):
        raise BadDestination(f"{what} must be text, not {type(text).__name__}")
    if len(text) > LONGEST_LINE or _NOT_ONE_LINE.search(text):
        raise BadDestination(f"{what} must be one line of at most {LONGEST_LINE} characters")


def _rendered(attachment: Attachment) -> dict[str, str]:
    return {
        "filename": attachment.filename,
        "content_type": attachment.content_type,
        "content": base64.b64encode(attachment.content).decode("ascii"),
    }
