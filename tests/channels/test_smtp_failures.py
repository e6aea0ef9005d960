"""mailto: over SMTP when something goes wrong: whose fault it is, and whether the mail may have been accepted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiosmtplib
import pytest

from sendonce.channels.email.smtp_session import why_not_open
from sendonce.channels.protocol import Channel, Message
from sendonce.domain.emails import Attachment, Email
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Fault, Outcome, Refused, Unknown, fault_of
from tests.channels.contract import ChannelContract
from tests.channels.mail_servers import (
    CLOSE,
    CUT,
    LETTER,
    RESET,
    STALL,
    Scripted,
    channel_to,
    mail_message,
    mail_server,
    scripted,
    trusted,
)
from tests.channels.troubles import NO_SUCH_HOST, free_port, never_accepting, running_out, server_context

FINAL_DOT = b".\r\n"
ANSWERS: list[tuple[str, str, type[Outcome], str, Fault]] = [
    # greylisting and the other temporary answers: again later
    ("RCPT", "450 4.2.0 greylisted", Failed, "smtp_450", Fault.RECIPIENT),
    ("RCPT", "451 4.7.1 greylisted, try again in 300 seconds", Failed, "smtp_451", Fault.RECIPIENT),
    ("RCPT", "452 4.2.2 mailbox full", Failed, "smtp_452", Fault.RECIPIENT),
    ("RCPT", "421 4.3.2 shutting down", Failed, "smtp_421", Fault.CHANNEL),
    ("MAIL", "421 4.7.0 too many mails", Failed, "smtp_421", Fault.CHANNEL),
    ("MAIL", "451 4.3.0 busy", Failed, "smtp_451", Fault.DESTINATION),
    ("DATA", "451 4.3.0 busy", Failed, "smtp_451", Fault.DESTINATION),
    (".", "451 4.3.0 busy", Failed, "smtp_451", Fault.DESTINATION),
    (".", "452 4.3.1 disk full", Failed, "smtp_452", Fault.DESTINATION),
    (".", "421 4.3.2 shutting down", Failed, "smtp_421", Fault.CHANNEL),
    # the recipient and the content: never
    ("RCPT", "550 5.1.1 no such mailbox", Refused, "smtp_550", Fault.RECIPIENT),
    ("RCPT", "551 5.1.6 has moved", Refused, "smtp_551", Fault.RECIPIENT),
    ("RCPT", "553 5.1.3 not an address", Refused, "smtp_553", Fault.RECIPIENT),
    ("RCPT", "550 5.7.1 rejected by policy", Refused, "smtp_550", Fault.RECIPIENT),
    ("RCPT", "501 5.1.3 bad address syntax", Refused, "smtp_501", Fault.RECIPIENT),
    ("MAIL", "552 5.3.4 too large", Refused, "smtp_552", Fault.RECIPIENT),
    ("DATA", "554 5.5.1 no valid recipients", Refused, "smtp_554", Fault.RECIPIENT),
    (".", "554 5.7.1 looks like spam", Refused, "smtp_554", Fault.RECIPIENT),
    (".", "552 5.3.4 too large", Refused, "smtp_552", Fault.RECIPIENT),
    # ours: nobody's mail is given up for it
    ("greeting", "554 5.7.1 you are blocked", Deferred, "our_server", Fault.CHANNEL),
    ("greeting", "421 4.3.2 too many connections", Deferred, "our_server", Fault.CHANNEL),
    ("EHLO", "550 5.7.1 who are you", Deferred, "our_server", Fault.CHANNEL),
    ("MAIL", "530 5.7.0 authentication required", Deferred, "our_credentials", Fault.CHANNEL),
    ("MAIL", "535 5.7.8 authentication failed", Deferred, "our_credentials", Fault.CHANNEL),
    ("MAIL", "550 5.7.1 sender not allowed", Deferred, "our_account", Fault.OURS),
    ("MAIL", "553 5.7.1 sender address rejected: not owned by user", Deferred, "our_account", Fault.OURS),
    ("MAIL", "503 5.5.1 bad sequence", Deferred, "our_server", Fault.OURS),
    ("RCPT", "530 5.7.0 must issue STARTTLS first", Deferred, "our_credentials", Fault.CHANNEL),
    ("RCPT", "554 5.7.1 <ada@example.com>: Relay access denied", Deferred, "our_account", Fault.OURS),
    ("RCPT", "550 relay not permitted", Deferred, "our_account", Fault.OURS),
    ("RCPT", "550 5.4.5 Daily user sending limit exceeded", Deferred, "our_account", Fault.OURS),
    (".", "550 5.7.60 no permission to send as this sender", Deferred, "our_account", Fault.OURS),
]


@pytest.mark.requirement("R14")
@pytest.mark.requirement("R15")
@pytest.mark.parametrize(("step", "answer", "kind", "code", "fault"), ANSWERS)
async def test_R14_R15_what_an_answer_means(
    step: str, answer: str, kind: type[Outcome], code: str, fault: Fault
) -> None:
    async with scripted({step: answer}) as server, channel_to(server.port) as channel:
        outcome = await channel.send(mail_message(), timeout=30)

    assert (type(outcome), getattr(outcome, "code", None)) == (kind, code)
    assert fault_of(outcome) is fault
    if step not in ("greeting", "EHLO"):
        assert getattr(outcome, "response", None) == answer


async def sent(channel: Channel, server: Scripted, how: str, mail: Email | None = LETTER) -> Outcome:
    """What comes of it; where the server stalls, when it has got so far in its time."""
    if how != STALL:
        return await channel.send(mail_message(mail), timeout=30)
    return await running_out(
        lambda seconds: channel.send(mail_message(mail), timeout=seconds), lambda _: server.stalls > 0
    )


@pytest.mark.parametrize("how", [RESET, CLOSE, STALL, "what?"])
@pytest.mark.parametrize("step", ["MAIL", "RCPT", "DATA"])
async def test_failure_before_the_final_dot_was_not_sent(step: str, how: str) -> None:
    async with scripted({step: how}) as server, channel_to(server.port) as channel:
        outcome = await sent(channel, server, how)

    assert isinstance(outcome, Failed)
    assert fault_of(outcome) is (Fault.RECIPIENT if (step, how) == ("RCPT", STALL) else Fault.CHANNEL)
    assert server.mails == []


@pytest.mark.parametrize("how", [RESET, CLOSE, STALL, "what?", "354 go on", "25"])
async def test_failure_after_the_final_dot_is_unknown(how: str) -> None:
    async with scripted({".": how}) as server, channel_to(server.port) as channel:
        outcome = await sent(channel, server, how)

    assert isinstance(outcome, Unknown)
    assert fault_of(outcome) is Fault.CHANNEL
    assert len(server.mails) == 1


@pytest.mark.parametrize("security", ["plain", "tls"])
@pytest.mark.parametrize("how", [RESET, CLOSE, STALL])
async def test_mail_of_which_only_a_part_went_out_was_not_sent(how: str, security: str, tmp_path: Path) -> None:
    """The server stops reading in the middle: the final dot is still here."""
    large = Email("ada@example.com", text="x", attachments=[Attachment("a.bin", bytes(9_000_000))])
    ca = trusted(tmp_path)
    async with (
        scripted({"half": how}, server_context() if security == "tls" else None) as server,
        channel_to(server.port, security=security, ca=ca) as channel,
    ):
        outcome = await sent(channel, server, how, large)

    assert isinstance(outcome, Failed)
    assert outcome.code == ("read_timeout" if how == STALL else "connection_lost")
    assert server.mails == []


@pytest.mark.parametrize("step", ["greeting", "EHLO"])
@pytest.mark.parametrize("how", [RESET, CLOSE, STALL, "what?"])
async def test_server_that_does_not_begin_is_our_fault(step: str, how: str) -> None:
    async with scripted({step: how}) as server, channel_to(server.port) as channel:
        outcome = await sent(channel, server, how)

    assert isinstance(outcome, Deferred)
    assert outcome.code == "our_server"


async def test_host_that_can_be_no_name_is_our_fault() -> None:
    async with channel_to(25, host="a" * 70 + ".example") as channel:
        outcome = await channel.send(mail_message(), timeout=30)

    assert isinstance(outcome, Deferred)
    assert outcome.code == "our_server"


@pytest.mark.parametrize(("code", "trouble"), [(535, "our_credentials"), (454, "our_server"), (421, "our_server")])
def test_log_in_that_does_not_work_for_now_is_no_wrong_password(code: int, trouble: str) -> None:
    outcome = why_not_open(aiosmtplib.SMTPAuthenticationError(code, "said with the password in it"))

    assert (outcome.code, outcome.message) == (trouble, f"the mail server does not let us log in: {code}")


@pytest.mark.parametrize(("greeting", "is_told"), [("250-mail.example\r\n250 SIZE 100000", True), ("250 ok", False)])
async def test_R15_server_that_has_a_limit_is_told_the_size_beforehand(greeting: str, is_told: bool) -> None:
    async with scripted({"EHLO": greeting}) as server, channel_to(server.port) as channel:
        outcome = await channel.send(mail_message(), timeout=30)

    assert isinstance(outcome, Delivered)
    [mail] = server.mails
    [command] = [each for each in server.commands if each.startswith("MAIL")]
    assert command.endswith(f" SIZE={len(mail.removesuffix(FINAL_DOT))}") is is_told
    assert ("SIZE=" in command) is is_told


async def test_mail_that_the_server_forwards_has_arrived() -> None:
    async with scripted({"RCPT": ["251 2.1.5 not local, will forward"]}) as server, channel_to(server.port) as channel:
        outcome = await channel.send(mail_message(), timeout=30)

    assert isinstance(outcome, Delivered)


async def test_connection_takes_the_next_mail_after_a_refusal() -> None:
    script = {"RCPT": ["550 5.1.1 no such mailbox", "250 ok"]}
    async with scripted(script) as server, channel_to(server.port) as channel:
        outcomes = [await channel.send(mail_message(), timeout=30) for _ in range(2)]

    assert [type(each) for each in outcomes] == [Refused, Delivered]
    assert (server.connections, server.commands.count("RSET")) == (1, 1)


@pytest.mark.parametrize("how", [RESET, CLOSE, "421 4.4.2 idle for too long", "what?"])
async def test_kept_connection_that_is_dead_before_mail_is_accepted_is_replaced_once(how: str) -> None:
    async with scripted({"MAIL": ["250 ok", how, "250 ok"]}) as server, channel_to(server.port) as channel:
        outcomes = [await channel.send(mail_message(), timeout=30) for _ in range(2)]
    async with scripted({"MAIL": ["250 ok", how]}) as hopeless, channel_to(hopeless.port) as channel:
        await channel.send(mail_message(), timeout=30)
        given_up = await channel.send(mail_message(), timeout=30)

    assert [type(each) for each in outcomes] == [Delivered, Delivered]
    assert (server.connections, len(server.mails)) == (2, 2)
    assert isinstance(given_up, Failed)
    assert (hopeless.connections, len(hopeless.mails)) == (2, 1)


@pytest.mark.parametrize("how", [RESET, CLOSE])
async def test_kept_connection_that_dies_later_is_not_replaced(how: str) -> None:
    async with scripted({"RCPT": ["250 ok", how, "250 ok"]}) as server, channel_to(server.port) as channel:
        await channel.send(mail_message(), timeout=30)
        outcome = await channel.send(mail_message(), timeout=30)

    assert isinstance(outcome, Failed)
    assert server.connections == 1


async def test_server_that_repeats_our_password_does_not_get_it_into_the_outcome() -> None:
    script = {"EHLO": "250-hello\r\n250 AUTH PLAIN", "AUTH": "535 5.7.8 what is AHNob3AAc2VjcmV0?"}
    async with scripted(script) as server, channel_to(server.port, user="shop", password="secret") as channel:
        outcome = await channel.send(mail_message(), timeout=30)

    assert "AUTH PLAIN AHNob3AAc2VjcmV0" in server.commands
    assert "AHNob3AAc2VjcmV0" not in repr(outcome)


async def test_answer_of_a_mail_server_is_kept_short_and_storable() -> None:
    async with scripted({"RCPT": "550 " + "no\0 " * 1500}) as server, channel_to(server.port) as channel:
        outcome = await channel.send(mail_message(), timeout=30)

    assert isinstance(outcome, Refused)
    assert len(outcome.response or "") <= 1000
    assert "\0" not in (outcome.response or "")


class TestSmtpContract(ChannelContract):
    column = "SMTP"

    @asynccontextmanager
    async def in_trouble(self, trouble: str) -> AsyncIterator[tuple[Channel, Message]]:
        message = mail_message()
        if trouble == "connection refused":
            async with channel_to(free_port()) as channel:
                yield channel, message
        elif trouble == "connect timeout":
            async with never_accepting() as port, channel_to(port) as channel:
                yield channel, message
        elif trouble == "TLS error":
            async with mail_server(tls=True) as server, channel_to(server.port, security="tls") as channel:
                yield channel, message
        elif trouble == "DNS error":
            async with channel_to(25, host=NO_SUCH_HOST) as channel:
                yield channel, message
        else:
            script = {
                "reset before the request went out": {"DATA": RESET},
                "reset after the request went out": {".": RESET},
                "read timeout": {".": STALL},
                "cut in the body of the answer": {".": CUT},
                "malformed answer": {".": "HTTP/1.1 200 OK"},
                "accepted, then dropped": {".": CLOSE},
            }[trouble]
            async with scripted(script) as troubled, channel_to(troubled.port) as channel:
                yield channel, message
