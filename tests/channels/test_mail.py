"""A mail is read from what was recorded; what cannot be one is refused before anything is sent."""

import json
from typing import Any

import pytest

from sendonce.channels.email.mail import Mail
from sendonce.domain.emails import Attachment, Email
from sendonce.domain.outcomes import Refused
from sendonce.engine.attempt import message_of
from tests.domain.values import a_claim

SENDER = "Shop <shop@example.com>"


def mail_of(**changes: Any) -> Mail | Refused:
    claim = a_claim(destination="mailto:ada@example.com", address="mailto:ada@example.com", **changes)
    return Mail.of(message_of(claim, "here"), SENDER)


def test_email_arrives_with_all_that_it_has() -> None:
    email = Email(
        "ada@example.com",
        subject="Grüße",
        text="text",
        html="<p>html</p>",
        sender="own@example.com",
        reply_to="help@example.com",
        headers={"X-Campaign": "spring"},
        attachments=[Attachment("ä.bin", b"\0\xff", "application/x-own")],
    )

    mail = mail_of(content=email.content())

    assert isinstance(mail, Mail)
    assert (mail.recipient, mail.sender, mail.subject) == ("ada@example.com", "own@example.com", "Grüße")
    assert (mail.text, mail.html, mail.reply_to) == ("text", "<p>html</p>", "help@example.com")
    assert mail.headers == {"X-Campaign": "spring"}
    assert [(each.filename, each.content_type, each.data) for each in mail.attachments] == [
        ("ä.bin", "application/x-own", b"\0\xff")
    ]


def test_payload_is_shown_to_a_person_without_a_mail_of_its_own() -> None:
    mail = mail_of(payload='{"memo":["Grüße",1]}')

    assert isinstance(mail, Mail)
    assert (mail.sender, mail.subject) == (SENDER, "memo.created")
    assert mail.text == '{\n  "memo": [\n    "Grüße",\n    1\n  ]\n}'


def test_mail_is_not_shown_by_accident() -> None:
    assert "ada" not in repr(mail_of(content=Email("ada@example.com", text="to ada").content()))


@pytest.mark.parametrize(
    "parts",
    [
        {"subject": "Hi\r\nBcc: eve@example.com"},
        {"subject": 1},
        {"sender": "shop@example.com\nBcc: eve@example.com"},
        {"sender": ["shop@example.com"]},
        {"reply_to": "nobody"},
        {"headers": {"X-A": "1\r\nBcc: eve@example.com"}},
        {"headers": {"Bcc": "eve@example.com"}},
        {"headers": {"X A": "1"}},
        {"headers": ["X-A"]},
        {"text": "", "html": None},
        {"text": 1},
        {"html": {"a": 1}},
        {"text": "\ud800"},
        {"attachments": [{"filename": "a"}]},
        {"attachments": [{"filename": "a", "content_type": "text/plain", "content": "not base64"}]},
        {"attachments": [{"filename": "a\r\nb", "content_type": "text/plain", "content": ""}]},
        {"attachments": [{"filename": "a", "content_type": "text/plain\r\nX: 1", "content": ""}]},
        {"attachments": "a"},
        {"attachments": 7},
    ],
)
def test_email_with_invalid_content_is_refused(parts: dict[str, Any]) -> None:
    content = {"subject": "Hi", "text": "hello", **parts}

    mail = mail_of(content=json.dumps(content))

    assert isinstance(mail, Refused)
    assert mail.code == "bad_content"
    assert "eve@" not in mail.message


@pytest.mark.parametrize("content", ["", "hello", "[]", '"hello"', "[" * 100_000])
def test_payload_that_is_no_mail_is_refused(content: str) -> None:
    assert isinstance(mail_of(content=content), Refused)
