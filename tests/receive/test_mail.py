"""The SMTP sink of `sendonce receive`."""

import smtplib
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.processes import until
from tests.provider import Provider
from tests.receive.test_command import printing


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider(mail=True) as running:
        yield running


def _mail(id: str, subject: str = "Gespeichert: Grüße") -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"], made["Subject"], made["Message-ID"] = "a@x.test", "b@x.test", subject, f"<{id}@x.test>"
    made.set_content("Guten Tag,\n.\nund bis bald\n")
    return made


def _send(address: str, mail: EmailMessage) -> None:
    host, _, port = address.partition(":")
    with smtplib.SMTP(host, int(port), timeout=50) as connection:
        connection.send_message(mail)


def test_mail_is_kept_under_its_message_id(provider: Provider) -> None:
    _send(provider.smtp, _mail("one"))

    assert provider.received()["one@x.test"] == 1
    assert provider.totals("mailto:b@x.test")["accepted"] == 1
    [arrival] = [each for each in provider.last() if each["token"] == "one@x.test"]
    assert arrival["subject"] == "Gespeichert: Grüße"
    assert "und bis bald" in arrival["body"]


def test_mail_is_turned_away_as_told(provider: Provider) -> None:
    provider.control(mail_fail="451:each:1")
    with pytest.raises(smtplib.SMTPDataError) as refused:
        _send(provider.smtp, _mail("two"))
    _send(provider.smtp, _mail("two"))
    provider.control(mail_fail=None)

    assert refused.value.smtp_code == 451
    assert provider.received()["two@x.test"] == provider.messages()["two@x.test"]["failed"] == 1


def test_mail_dropped_after_the_last_dot_is_there(provider: Provider) -> None:
    provider.control(drop_after_accept=True)
    with pytest.raises(smtplib.SMTPServerDisconnected):
        _send(provider.smtp, _mail("three"))
    provider.control(drop_after_accept=None)

    assert provider.received()["three@x.test"] == 1


def test_receiver_that_is_closed_refuses_mail(provider: Provider) -> None:
    provider.control(closed=True)
    with pytest.raises(ConnectionRefusedError):
        _send(provider.smtp, _mail("four"))
    provider.control(closed=False)
    _send(provider.smtp, _mail("four"))

    assert provider.received()["four@x.test"] == 1


def test_mail_is_printed_on_one_line(tmp_path: Path) -> None:
    with printing(tmp_path, "--smtp-port", "0") as receive:
        assert receive.url
        _send(receive.err.split("smtp://")[1].strip(), _mail("five", "Saved"))
        until(lambda: "\n" in receive.out, "the line")

    assert receive.out.endswith("  MAIL from a@x.test to b@x.test: Saved  token five@x.test  accepted\n")


@pytest.mark.parametrize(("behaviour", "accepted"), [("slow", 0), ("late", 1)])
def test_sender_that_hangs_up_was_not_answered(provider: Provider, behaviour: str, accepted: int) -> None:
    host, _, port = provider.smtp.partition(":")
    path = f"mailto:{behaviour}@x.test"
    provider.control(**{behaviour: "1s"})
    connection = smtplib.SMTP(host, int(port), timeout=50)
    connection.ehlo()
    connection.mail("a@x.test")
    connection.rcpt(f"{behaviour}@x.test")
    connection.docmd("DATA")
    connection.send("Subject: Saved\r\n\r\nGuten Tag\r\n.\r\n")
    until(lambda: provider.totals(path).get("in_flight") == 1, "the mail")
    connection.close()
    provider.control(**{behaviour: None})
    until(lambda: provider.totals(path)["in_flight"] == 0, "the end of it")

    assert provider.totals(path)["unheard"] == 1
    assert provider.totals(path)["accepted"] == accepted
