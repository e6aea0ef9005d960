"""A mail's bytes: the same every time, readable by any mail program, in every script."""

import email
import email.policy
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from email.header import decode_header, make_header
from email.message import EmailMessage
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendonce.channels.email.mail import Mail
from sendonce.channels.email.mime import Letter, compose
from sendonce.domain.emails import LONGEST_LINE, Attachment, Email
from sendonce.errors import BadDestination
from tests.channels.mail_servers import mail_message
from tests.processes import ROOT

TOKEN = "0123456789abcdef0123456789abcdef01234567"
MOMENT = datetime(2030, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
LONG_NAME = "X-A-Long-Name-" + "x" * 36
TEXTS = {
    "plain": "Your memo is saved.\n",
    "German": "Grüße aus Köln: größer, süßer, ÄÖÜ\n" * 20,
    "Arabic": "مرحبا بالعالم، تم حفظ مذكرتك",
    "Chinese": "您的备忘录已保存。" * 50,
    "emoji": "saved 🎈👩‍👩‍👧 " * 30,
    "one very long line": "x" * 5000,
    "dots and From": ".\n..\n.dot\nFrom here on\n",
    "trailing spaces and tabs": "a \nb\t\n \n",
    "controls": "a\0b\x0bc\x1bd\n",
    "looks like a boundary": f"--=_mixed_{TOKEN}\n\n--=_alternative_{TOKEN}--\n",
    "looks encoded": "=?utf-8?b?R3I=?= =C3=BC\n",
}


def a_letter(mail: Email, *, at: datetime = MOMENT, sender: str = "Shop <shop@example.com>") -> Letter:
    parsed = Mail.of(mail_message(mail), sender)
    assert isinstance(parsed, Mail)
    return compose(parsed, TOKEN, at)


def read(letter: Letter) -> EmailMessage:
    """The mail as a mail program sees it; it must find nothing wrong."""
    message = email.message_from_bytes(letter.data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    assert [part.defects for part in message.walk()] == [[] for _ in message.walk()]
    return message


def text_of(part: object) -> str:
    assert isinstance(part, EmailMessage)
    return str(part.get_content()).replace("\r\n", "\n")


def test_M14_mail_carries_the_token_for_the_provider() -> None:
    letter = a_letter(Email("ada@example.com", subject="Saved", text="Your memo is saved."))
    message = read(letter)

    assert letter.message_id == message["Message-ID"] == f"<{TOKEN}@example.com>"
    assert message["Idempotency-Key"] == TOKEN
    assert (letter.sender, letter.recipient) == ("shop@example.com", "ada@example.com")
    assert (message["From"], message["To"]) == ("Shop <shop@example.com>", "ada@example.com")
    assert message["Date"].datetime == MOMENT.replace(microsecond=0)
    assert text_of(message) == "Your memo is saved.\n"


EVERYTHING = Email(
    "ada@example.com",
    subject="Grüße 🎈",
    text="Hallo Ada",
    html="<p>Hallo <b>Ada</b></p>",
    sender="Läden <shop@example.org>",
    reply_to="desk@example.org",
    headers={"X-B": "2", "X-A": "1"},
    attachments=[Attachment("Übersicht.pdf", bytes(range(256)), "application/pdf"), Attachment("a.txt", b"x")],
)


def test_R9_bytes_are_the_same_in_another_process_with_other_hashes_and_another_time_zone() -> None:
    program = (
        "import sys; from tests.channels.test_smtp_mime import EVERYTHING, a_letter;"
        "sys.stdout.buffer.write(a_letter(EVERYTHING).data)"
    )
    environments = [{"PYTHONHASHSEED": "1", "TZ": "UTC"}, {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo", "LANG": "de_DE"}]

    found = [
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=each, check=True, stdout=subprocess.PIPE).stdout
        for each in environments
    ]

    assert found[0] == found[1] == a_letter(EVERYTHING).data
    assert a_letter(EVERYTHING, at=MOMENT.astimezone(timezone(timedelta(hours=9)))).data == found[0]


def test_text_html_and_attachments_are_nested_as_mail_programs_expect() -> None:
    message = read(a_letter(EVERYTHING))

    assert [part.get_content_type() for part in message.walk()] == [
        "multipart/mixed", "multipart/alternative", "text/plain", "text/html", "application/pdf",
        "application/octet-stream",
    ]  # fmt: skip
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    assert (text_of(plain), text_of(html)) == ("Hallo Ada", "<p>Hallo <b>Ada</b></p>")
    assert [(part.get_filename(), part.get_content()) for part in message.iter_attachments()] == [
        ("Übersicht.pdf", bytes(range(256))),
        ("a.txt", b"x"),
    ]
    assert (message["Subject"], message["Reply-To"]) == ("Grüße 🎈", "desk@example.org")
    assert (message["From"], message["X-A"], message["X-B"]) == ("Läden <shop@example.org>", "1", "2")
    assert message["Message-ID"] == f"<{TOKEN}@example.org>"


def test_html_alone_is_not_accompanied_by_an_empty_text() -> None:
    assert read(a_letter(Email("a@b.c", html="<p>x</p>"))).get_content_type() == "text/html"


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("shape", ["text", "html", "both"])
def test_script_arrives_as_it_was_written(text: str, shape: str) -> None:
    mail = Email("a@b.c", text=text if shape != "html" else "", html=text if shape != "text" else None)

    letter = a_letter(mail)
    parts = [part for part in read(letter).walk() if not part.is_multipart()]

    assert [text_of(part).rstrip("\n") for part in parts] == [text.rstrip("\n")] * (2 if shape == "both" else 1)
    assert letter.data.isascii()
    assert max(map(len, letter.data.split(b"\r\n"))) <= 998
    assert not re.search(rb"[^\r]\n|\r[^\n]", letter.data)


@pytest.mark.parametrize(
    "subject",
    [
        "", "Saved", "Grüße " * 40, "مرحبا " * 30, "您好" * 200, "🎈" * 225, "=?utf-8?q?x?=", "word " * 100, "x" * 900,
        "  a   b  ",
    ],
)  # fmt: skip
def test_subject_arrives_as_it_was_written(subject: str) -> None:
    letter = a_letter(Email("a@b.c", subject=subject, text="x", headers={LONG_NAME: subject}))

    message = read(letter)

    raw = email.message_from_bytes(letter.data)
    assert str(make_header(decode_header(re.sub("\r\n", "", raw["Subject"])))) == subject.strip()
    assert message["Subject"] == subject.strip()
    assert message[LONG_NAME] == subject.strip()
    head = letter.data.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert all(len(line) <= 76 for line in head if b"=?utf-8?b?" in line)


def test_long_subject_takes_no_more_lines_than_it_needs() -> None:
    letter = a_letter(Email("a@b.c", subject="A word of the subject " * 12, text="x"))

    head = letter.data.partition(b"\r\n\r\n")[0]
    [subject] = [each for each in re.split(rb"\r\n(?! )", head) if each.startswith(b"Subject: ")]
    lines = subject.split(b"\r\n")
    assert len(lines) == 4
    assert max(map(len, lines)) <= 76
    for line, after in pairwise(lines):  # the next word would have made it too long
        assert len(line) + len(after.split()[0]) + 1 > 76


@pytest.mark.parametrize(
    ("sender", "name", "address"),
    [
        ("shop@example.com", "", "shop@example.com"),
        ('"Shop, Inc." <shop@example.com>', "Shop, Inc.", "shop@example.com"),
        ('Shop "the best" (old) <shop@example.com>', 'Shop "the best" (old)', "shop@example.com"),
        ("متجر <shop@example.com>", "متجر", "shop@example.com"),
        ("Läden " * 30 + "<shop@münchen.de>", ("Läden " * 30).strip(), "shop@xn--mnchen-3ya.de"),
        ("A very long name " * 20 + "<shop@example.com>", ("A very long name " * 20).strip(), "shop@example.com"),
    ],
)
def test_name_of_a_sender_arrives_as_it_was_written(sender: str, name: str, address: str) -> None:
    letter = a_letter(Email("a@b.c", text="x"), sender=sender)

    # Python's newer parser puts spaces between encoded words that belong together; its older one reads them as meant.
    unfolded = email.message_from_bytes(letter.data)["From"].replace("\r\n", "")
    shown = str(make_header(decode_header(unfolded)))
    assert shown.removesuffix(f" <{address}>").strip('"').replace('\\"', '"') == (name or address)
    assert read(letter)["From"].addresses[0].addr_spec == address
    assert letter.sender == address
    assert not letter.is_international


@pytest.mark.parametrize(
    "filename", ["a b.pdf", 'a"b.pdf', "übersicht.pdf", "备忘录" * 40 + ".pdf", "🎈.zip", "a;b=c.txt"]
)
def test_filename_arrives_as_it_was_written(filename: str) -> None:
    letter = a_letter(Email("a@b.c", text="x", attachments=[Attachment(filename, b"x")]))

    [attachment] = read(letter).iter_attachments()

    assert attachment.get_filename() == filename
    assert max(map(len, letter.data.split(b"\r\n"))) <= 998


def test_internationalised_domain_is_ascii_and_a_mailbox_outside_ascii_needs_a_server_that_takes_it() -> None:
    domain = a_letter(Email("ada@münchen.de", text="x"))
    mailbox = a_letter(Email("ügür@example.com", text="x"))

    assert (domain.recipient, domain.is_international) == ("ada@xn--mnchen-3ya.de", False)
    assert (mailbox.recipient, mailbox.is_international) == ("ügür@example.com", True)
    assert "To: ügür@example.com".encode() in mailbox.data


LINES = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=LONGEST_LINE)


@given(subject=LINES, text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1), value=LINES)
def test_mime_headers_are_those_that_were_meant(subject: str, text: str, value: str) -> None:
    letter = a_letter(Email("a@b.c", subject=subject, text=text, html=text, headers={"X-Own": value}))

    message = read(letter)

    assert list(message.keys()) == [
        "From", "To", "Subject", "Date", "Message-ID", "Idempotency-Key", "MIME-Version", "X-Own", "Content-Type",
    ]  # fmt: skip
    assert letter.data.isascii()
    assert max(map(len, letter.data.split(b"\r\n"))) <= 998
    plain = re.sub("\r\n?", "\n", text)
    assert [text_of(part) for part in message.iter_parts()] == [plain, plain]


@pytest.mark.parametrize(
    "fields",
    [
        {"sender": "shop@example.com>"},
        {"sender": "nobody"},
        {"recipient": "a@b.c>\x1e"},
        {"headers": {"Resent-To": "eve@example.com"}},
        {"subject": "a\u2028Bcc: eve@example.com"},
    ],
)
def test_content_that_no_email_can_have_is_not_composed(fields: dict[str, object]) -> None:
    mail: dict[str, object] = {"recipient": "a@b.c", "sender": "shop@example.com", "subject": "", "text": "x"}

    with pytest.raises(BadDestination):
        compose(Mail(**(mail | fields)), TOKEN, MOMENT)  # type: ignore[arg-type]
