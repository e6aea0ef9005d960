"""E-mails: rendered to the same text every time, and nothing smuggled in."""

import base64
import json

import pytest

from sendonce.domain.destinations import route
from sendonce.domain.emails import LARGEST_ATTACHMENTS, Attachment, Email, Mailbox, parse_mailbox
from sendonce.errors import BadDestination


def test_email_is_rendered_to_the_same_text_every_time() -> None:
    email = Email(
        "ada@example.com",
        subject="Grüße",
        text="Hi",
        html="<p>Hi</p>",
        sender="me@example.com",
        reply_to="desk@example.com",
        headers={"X-B": "2", "X-A": "1"},
    )

    assert json.loads(email.content()) == {
        "subject": "Grüße",
        "text": "Hi",
        "html": "<p>Hi</p>",
        "sender": "me@example.com",
        "reply_to": "desk@example.com",
        "headers": {"X-A": "1", "X-B": "2"},
    }
    assert email.content().index('"X-A"') < email.content().index('"X-B"')
    assert json.loads(Email("a@b.c", html="<p>").content()) == {"subject": "", "text": "", "html": "<p>"}


@pytest.mark.parametrize("evil", ["a\r\nBcc: eve@example.com", "a\nb", "a\rb", "a\0b"])
@pytest.mark.parametrize("field", ["subject", "sender", "reply_to", "header name", "header value"])
def test_email_takes_no_smuggled_header(field: str, evil: str) -> None:
    fields: dict[str, object] = {field: evil}
    if field.startswith("header"):
        fields = {"headers": {evil: "x"} if field == "header name" else {"X-A": evil}}

    with pytest.raises(BadDestination, match="one line"):
        Email("a@b.c", text="x", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["a@b.c\r\nBcc: eve@example.com", "a@b.c, eve@example.com", "a@b.c?bcc=eve@b.c"])
def test_email_takes_no_smuggled_recipient(address: str) -> None:
    with pytest.raises(BadDestination):
        route(Email(address, text="x"))


def test_email_without_content_is_refused() -> None:
    with pytest.raises(BadDestination, match="needs text or html"):
        Email("a@b.c", subject="only")


def test_attachments_are_rendered_with_their_bytes() -> None:
    email = Email("a@b.c", text="x", attachments=[Attachment("Übersicht.pdf", b"%PDF\0\xff", "application/pdf")])

    [attachment] = json.loads(email.content())["attachments"]

    assert (attachment["filename"], attachment["content_type"]) == ("Übersicht.pdf", "application/pdf")
    assert base64.b64decode(attachment["content"]) == b"%PDF\0\xff"
    assert "%PDF" not in repr(email)


def test_attachments_have_a_largest_size() -> None:
    half = Attachment("half.bin", bytes(LARGEST_ATTACHMENTS // 2))

    Email("a@b.c", text="x", attachments=[half, half])
    with pytest.raises(BadDestination, match="10000001 bytes together, more than the 10000000 allowed; store them"):
        Email("a@b.c", text="x", attachments=[half, half, Attachment("one.bin", b"1")])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"filename": ""}, "not a path"),
        ({"filename": "../etc/passwd"}, "not a path"),
        ({"filename": "a\\b"}, "not a path"),
        ({"filename": 'a"\r\nX-Evil: 1'}, "one line"),
        ({"content": "text"}, "must be bytes, not str"),
        ({"content_type": "pdf"}, "must be like application/pdf"),
        ({"content_type": "application/pdf\r\nX-Evil: 1"}, "one line"),
        ({"content_type": 'text/plain; name="x"'}, "must be like application/pdf"),
        ({"content_type": "Multipart/mixed"}, "must be like application/pdf"),
        ({"content_type": "message/rfc822"}, "attached as application/octet-stream"),
    ],
)
def test_attachment_that_is_invalid_is_refused(fields: dict[str, object], says: str) -> None:
    with pytest.raises(BadDestination, match=says):
        Attachment(**({"filename": "a.txt", "content": b"x"} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "From", "to", "CC", "Bcc", "Subject", "Reply-To", "Sender", "Date", "Message-Id", "MIME-Version", "Return-Path",
        "Received", "Content-Type", "Content-Anything", "Resent-To", "DKIM-Signature", "ARC-Seal", "idempotency-key",
    ],
)  # fmt: skip
def test_header_cannot_replace_a_part_of_the_email(name: str) -> None:
    with pytest.raises(BadDestination, match=f"the header {name} cannot be given"):
        Email("a@b.c", text="x", headers={name: "1"})


@pytest.mark.parametrize("name", ["", "X A", "X:A", "X-Ä", "-", "X" * 51, "Bcc ", " Bcc", "Bcc\t"])
def test_header_name_that_is_invalid_is_refused(name: str) -> None:
    with pytest.raises(BadDestination, match="is not a header's name"):
        Email("a@b.c", text="x", headers={name: "1"})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"subject": None}, "subject must be text, not NoneType"),
        ({"subject": "x" * 901}, "at most 900 characters"),
        ({"subject": "a\u2028b"}, "one line"),
        ({"subject": "a\x85b"}, "one line"),
        ({"sender": "nobody"}, "sender must be like"),
        ({"sender": "a@b.c, d@e.f"}, "sender must be like"),
        ({"sender": "A <a@b.c> <d@e.f>"}, "sender must be like"),
        ({"reply_to": "a@b.c>"}, "reply_to must be like"),
        ({"headers": {"X-A": 1}}, "must be text, not int"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "given twice"),
        ({"text": b"x"}, "must be text"),
        ({"attachments": [b"x"]}, "Attachment"),
    ],
)
def test_email_that_is_invalid_is_refused(fields: dict[str, object], says: str) -> None:
    with pytest.raises(BadDestination, match=says):
        Email("a@b.c", **({"text": "x"} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("ada@Example.com", Mailbox("", "ada@example.com")),
        ("Ada Lovelace <ada@example.com>", Mailbox("Ada Lovelace", "ada@example.com")),
        ("<ada@example.com>", Mailbox("", "ada@example.com")),
        ('"Shop, \\"Inc.\\"" <shop@münchen.de>', Mailbox('Shop, "Inc."', "shop@xn--mnchen-3ya.de")),
        ("متجر <shop@example.com>", Mailbox("متجر", "shop@example.com")),
    ],
)
def test_mailboxes(text: str, read: Mailbox) -> None:
    assert parse_mailbox("it", text) == read
    assert parse_mailbox("it", text).domain == read.address.partition("@")[2]


def test_sender_that_is_invalid_is_not_repeated_in_the_error() -> None:
    with pytest.raises(BadDestination) as raised:
        Email("a@b.c", text="x", sender="secret person")

    assert "secret" not in str(raised.value)
