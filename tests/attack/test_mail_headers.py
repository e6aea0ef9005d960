"""Whatever is in a text of a mail: on the wire it is one mail to one recipient, with our headers only."""

import asyncio
import email
import email.policy
import re
from collections.abc import Callable

import pytest

from sendonce.channels.email.api import as_mailbox
from sendonce.domain.emails import Attachment, Email
from sendonce.domain.outcomes import Delivered, Refused
from sendonce.errors import BadDestination
from tests.attack.lines import BREAKS, MARK, evil
from tests.channels.mail_servers import channel_to, mail_message
from tests.channels.troubles import raw_server

TO = "ada@example.com"
HEADERS = {
    "From", "To", "Subject", "Date", "Message-ID", "Idempotency-Key", "MIME-Version", "Reply-To", "X-Given",
    "Content-Type", "Content-Transfer-Encoding", "Content-Disposition",
}  # fmt: skip


class Wire:
    """A mail server that keeps every byte, and ends a mail at CR LF . CR LF and nowhere else."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        self.mails: list[bytes] = []

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 wire\r\n")
        while line := await reader.readuntil(b"\r\n"):
            self.commands.append(line)
            if line == b"DATA\r\n":
                writer.write(b"354 go on\r\n")
                self.mails.append((await reader.readuntil(b"\r\n.\r\n"))[:-3])
                writer.write(b"250 ok\r\n")
            elif line.startswith(b"EHLO"):
                writer.write(b"250-wire\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n")
            else:
                writer.write(b"250 ok\r\n")


def mails(text: str) -> dict[str, Email]:
    """The mails that can be made with this text in one of their places."""
    file = Attachment("a.txt", b"a")
    places: dict[str, Callable[[], Email]] = {
        "recipient": lambda: Email(text, text="a"),
        "recipient's mailbox": lambda: Email(f"{text}@example.com", text="a"),
        "recipient's domain": lambda: Email(f"ada@{text}", text="a"),
        "subject": lambda: Email(TO, subject=text, text="a"),
        "text": lambda: Email(TO, text=text),
        "html": lambda: Email(TO, html=f"<p>{text}</p>"),
        "sender": lambda: Email(TO, text="a", sender=text),
        "sender's name": lambda: Email(TO, text="a", sender=f"{text} <shop@example.com>"),
        "sender's quoted name": lambda: Email(TO, text="a", sender=f'"{text}" <shop@example.com>'),
        "reply_to": lambda: Email(TO, text="a", reply_to=f"{text} <shop@example.com>"),
        "header": lambda: Email(TO, text="a", headers={"X-Given": text}),
        "header's name": lambda: Email(TO, text="a", headers={text: "1"}),
        "filename": lambda: Email(TO, text="a", attachments=[Attachment(text, b"a")]),
        "content type": lambda: Email(TO, text="a", attachments=[Attachment("a", b"a", text)]),
        "content type's parameter": lambda: Email(TO, text="a", attachments=[Attachment("a", b"a", f"a/b; c={text}")]),
        "attachment": lambda: Email(TO, text=text, attachments=[file, Attachment("b", text.encode(errors="replace"))]),
    }
    made: dict[str, Email] = {}
    said = []
    for place, make in places.items():
        try:
            made[place] = make()
        except BadDestination as error:
            said.append(str(error))
    assert all(len(sentence.splitlines()) == 1 for sentence in said)
    return made


@pytest.mark.parametrize("place", BREAKS)
async def test_mail_arrives_with_the_headers_that_were_meant(place: str) -> None:
    made = mails(evil(place))
    for where, mail in made.items():
        wire = Wire()
        async with raw_server(wire.connected) as port, channel_to(port, security="plain") as channel:
            try:
                outcome = await channel.send(mail_message(mail), timeout=30)
            except BadDestination:
                continue  # what its URI refuses when it is recorded

        if isinstance(outcome, Refused):
            assert (wire.mails, wire.commands) == ([], [])
            continue
        assert isinstance(outcome, Delivered), where
        assert [line.split()[0] for line in wire.commands if line != b"QUIT\r\n"] == [
            b"EHLO",
            b"MAIL",
            b"RCPT",
            b"DATA",
        ]
        [data] = wire.mails
        assert not re.search(rb"\r(?!\n)|(?<!\r)\n|\0", data), where
        assert max(map(len, data.split(b"\r\n"))) <= 998
        heads = email.message_from_bytes(data, policy=email.policy.default).walk()
        assert {name for part in heads for name in part} <= HEADERS, where


def test_headers_that_accept_a_broken_line_are_known() -> None:
    """Bodies do, and arrive with the same text; nothing that becomes a header does."""
    taken = {place for name in BREAKS if name not in _HARMLESS for place in mails(evil(name))}

    assert taken <= {"text", "html", "attachment", "recipient", "recipient's mailbox", "recipient's domain"}


_HARMLESS = {"CR LF in a percent's clothes", "CR LF when cut to bytes", "a lone surrogate", "a tag's end"}


@pytest.mark.parametrize("place", sorted(_HARMLESS - {"a lone surrogate"}))
def test_providers_mailbox_keeps_its_quotes(place: str) -> None:
    sender = f'"{evil(place)}" <shop@example.com>'.replace('"><', "")

    written = as_mailbox(sender)

    assert written.endswith(" <shop@example.com>")
    assert MARK in written
    assert written.startswith('"')
