"""A mail as the bytes that go over the wire: the same for every attempt, on every machine."""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import quote

from sendonce.channels.email.mail import Mail
from sendonce.domain.emails import KEY_HEADER, Attachment, Email, Mailbox, parse_mailbox

LINE = 76
_WRAPPING = len("=?utf-8?b??=")
_FOLD = "\r\n "
_PLAIN_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+/^_`{|}~ -]*", re.ASCII)


def header(name: str, value: str) -> str:
    """One header of free text."""
    value = value.strip()
    # What looks encoded already would be shown as something else than what was written.
    if value.isascii() and "=?" not in value:
        return folded(f"{name}: {value}")
    return f"{name}:" + encoded(value, len(name) + 1)


def address(name: str, mailbox: Mailbox) -> str:
    """One header with an address; an address outside ASCII stays as it is, for servers that take it (SMTPUTF8)."""
    shown = mailbox.name
    if not shown:
        return f"{name}: {mailbox.address}"
    if not shown.isascii() or "=?" in shown:
        return f"{name}:{encoded(shown, len(name) + 1)}{_FOLD}<{mailbox.address}>"
    if not _PLAIN_NAME.fullmatch(shown):
        shown = '"' + re.sub(r'(["\\])', r"\\\1", shown) + '"'
    return folded(f"{name}: {shown} <{mailbox.address}>")


def attached(filename: str) -> str:
    """The header that names an attachment."""
    beginning = "Content-Disposition: attachment"
    if filename.isascii():
        escaped = re.sub(r'(["\\])', r"\\\1", filename)
        return f'{beginning};{_FOLD}filename="{escaped}"'
    parts = [f"filename*{number}*={part}" for number, part in enumerate(_percent(filename))]
    return ";".join([beginning, *(f"{_FOLD}{part}" for part in parts)])


def folded(line: str) -> str:
    """The line broken before spaces where it is too long; the spaces stay, so that it reads the same."""
    if len(line) <= LINE:
        return line
    lines = [""]
    for number, word in enumerate(re.findall(r" *[^ ]+", line)):
        # The name and the first word stay together: some readers take a first line without a value for an empty one.
        if number > 1 and len(lines[-1]) + len(word) > LINE:
            lines.append("")
        lines[-1] += word
    return "\r\n".join(lines)


def encoded(text: str, taken: int) -> str:
    """The text as encoded words on lines of their own, but for the first, on whose line so much is `taken`."""
    chunks = _chunks(text, (LINE - 1 - taken - _WRAPPING) // 4 * 3)
    return " " + _FOLD.join([f"=?utf-8?b?{base64.b64encode(each.encode()).decode('ascii')}?=" for each in chunks])


def _chunks(text: str, first: int) -> Iterator[str]:
    """Pieces of at most `first` and then 45 bytes, never within a character."""
    room, begin, size = first, 0, 0
    for place, character in enumerate(text):
        width = len(character.encode())
        if size + width > room:
            yield text[begin:place]
            room, begin, size = 45, place, 0
        size += width
    yield text[begin:]


def _percent(filename: str) -> Iterator[str]:
    piece = "utf-8''"
    for character in filename:
        written = quote(character, safe="")
        if len(piece) + len(written) > LINE - len(" filename*999*=;"):
            yield piece
            piece = ""
        piece += written
    yield piece


_ENDS = re.compile(r"\r\n?")
_HIGH = bytes(range(128, 256))
_PLAIN = re.compile(r"(?:[\t\x20-\x7e]{0,990}\n)*[\t\x20-\x7e]{0,990}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Letter:
    """One mail to one recipient. `is_international`: only a server with SMTPUTF8 can take it."""

    message_id: str
    sender: str
    recipient: str
    is_international: bool
    data: bytes = field(repr=False)


def compose(mail: Mail, token: str, recorded_at: datetime) -> Letter:
    """The letter of a mail; BadDestination when it holds what an Email may not."""
    attachments = [Attachment(each.filename, each.data, each.content_type) for each in mail.attachments]
    email = Email(
        mail.recipient, mail.subject, mail.text, mail.html, mail.sender, mail.reply_to, mail.headers, attachments
    )
    sender = parse_mailbox("an e-mail's sender", mail.sender)
    recipient = parse_mailbox("an e-mail's recipient", mail.recipient)
    message_id = f"<{token}@{sender.domain}>"
    head = [
        address("From", sender),
        address("To", Mailbox("", recipient.address)),
        header("Subject", mail.subject),
        f"Date: {format_datetime(recorded_at.astimezone(UTC))}",
        f"Message-ID: {message_id}",
        f"{KEY_HEADER}: {token}",
        "MIME-Version: 1.0",
    ]
    if mail.reply_to:
        head.append(address("Reply-To", parse_mailbox("an e-mail's reply_to", mail.reply_to)))
    head += [header(name, mail.headers[name]) for name in sorted(mail.headers)]
    lines = "\r\n".join(head)
    body = _body(email, token)
    data = b"%b\r\n%b%b" % (lines.encode(), body, b"" if body.endswith(b"\r\n") else b"\r\n")
    return Letter(message_id, sender.address, recipient.address, not lines.isascii(), data)


def _body(email: Email, token: str) -> bytes:
    parts = [_text(kind, text) for kind, text in (("plain", email.text), ("html", email.html)) if text]
    whole = parts[0] if len(parts) == 1 else _multipart("alternative", token, parts)
    if not email.attachments:
        return whole
    return _multipart("mixed", token, [whole, *map(_attachment, email.attachments)])


def _multipart(kind: str, token: str, parts: list[bytes]) -> bytes:
    boundary = b"=_%b_%b" % (kind.encode(), token.encode())
    opened = b"".join([b"--%b\r\n%b\r\n" % (boundary, part) for part in parts])
    return b'Content-Type: multipart/%b;\r\n boundary="%b"\r\n\r\n%b--%b--' % (
        kind.encode(),
        boundary,
        opened,
        boundary,
    )


def _text(kind: str, text: str) -> bytes:
    """Return a part of text: unencoded where that is safe, else in the shorter of the two encodings."""
    text = _ENDS.sub("\n", text)
    encoded = text.encode()
    # Boundaries begin with `=_`, which cannot occur in an encoded part: a part that holds it is encoded.
    if "=_" not in text and _PLAIN.fullmatch(text):
        encoding, body = b"7bit", encoded.replace(b"\n", b"\r\n")
    elif 6 * (len(encoded) - len(encoded.translate(None, _HIGH))) < len(encoded):
        encoding, body = b"quoted-printable", binascii.b2a_qp(encoded, istext=True).replace(b"\n", b"\r\n")
    else:
        encoding, body = b"base64", _base64(encoded.replace(b"\n", b"\r\n"))
    head = b'Content-Type: text/%b; charset="utf-8"\r\nContent-Transfer-Encoding: %b' % (kind.encode(), encoding)
    return b"%b\r\n\r\n%b" % (head, body)


def _attachment(attachment: Attachment) -> bytes:
    head = "\r\n".join(
        [
            f"Content-Type: {attachment.content_type}",
            "Content-Transfer-Encoding: base64",
            attached(attachment.filename),
        ]
    )
    return b"%b\r\n\r\n%b" % (head.encode("ascii"), _base64(attachment.content))


def _base64(content: bytes) -> bytes:
    line = binascii.b2a_base64(content, newline=False)
    return b"\r\n".join([line[begin : begin + 76] for begin in range(0, len(line), 76)])
