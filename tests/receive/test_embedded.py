"""The receiver inside a program: it takes mail and HTTP, misbehaves as told, and is gone with its block."""

import smtplib
import urllib.request
from asyncio import to_thread
from urllib.parse import urlsplit

import pytest

import sendonce


def mail(url: str, to: str) -> None:
    place = urlsplit(url)
    with smtplib.SMTP(str(place.hostname), place.port or 0, timeout=50) as server:
        server.sendmail("shop@example.com", to, "Subject: Hello\n\nIt is here.\n")


async def test_receiver_in_process_takes_mails_and_requests_and_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    async with sendonce.aembedded_receiver() as receiving:
        await to_thread(mail, receiving.smtp, "ada@example.com")
        answer = await to_thread(urllib.request.urlopen, f"{receiving.http}/orders", b"{}", 10)
        answer.close()

    printed = capsys.readouterr().out
    assert "to ada@example.com: Hello" in printed
    assert "POST /orders" in printed
    with pytest.raises(OSError):  # noqa: PT011, refused or reset: it is gone either way
        await to_thread(mail, receiving.smtp, "ada@example.com")


async def test_receiver_in_process_misbehaves_as_told_and_can_be_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    behaviours = {"mailto:nobody@": {"mail_fail": "550"}}
    async with sendonce.aembedded_receiver(is_quiet=True, behaviours=behaviours) as receiving:
        with pytest.raises(smtplib.SMTPResponseException, match="550"):
            await to_thread(mail, receiving.smtp, "nobody@example.com")
        await to_thread(mail, receiving.smtp, "ada@example.com")

    assert capsys.readouterr().out == ""


def test_receiver_of_a_program_without_an_event_loop_takes_requests(capsys: pytest.CaptureFixture[str]) -> None:
    with sendonce.embedded_receiver() as receiving:
        urllib.request.urlopen(f"{receiving.http}/orders", b"{}", 10).close()  # noqa: S310, its own address

    assert "POST /orders" in capsys.readouterr().out
    with pytest.raises(OSError):  # noqa: PT011, refused or reset: it is gone either way
        urllib.request.urlopen(f"{receiving.http}/orders", b"{}", 10)  # noqa: S310, its own address


async def test_behaviour_that_there_is_not_is_told() -> None:
    with pytest.raises(sendonce.ConfigError, match="there is no behaviour 'fial'"):
        async with sendonce.aembedded_receiver(behaviours={"/": {"fial": "500"}}):
            pass
