"""mailto: over SMTP against a real mail server: log-in, encryption, and connections that stay open."""

import asyncio
import json
from pathlib import Path

import pytest

from sendonce.channels.email import smtp_session
from sendonce.domain.emails import Attachment, Email
from sendonce.domain.outcomes import Deferred, Delivered, Fault, Refused, Unknown
from tests.channels.mail_servers import LETTER, channel_to, mail_message, mail_server, trusted
from tests.processes import until_async


async def test_M14_mail_arrives_with_its_message_id_and_that_is_its_notification_id() -> None:
    message = mail_message()
    async with mail_server() as server, channel_to(server.port) as channel:
        outcome = await channel.send(message, timeout=30)

    message_id = f"<{message.token}@example.com>"
    [envelope], [mail] = server.envelopes, server.mails
    assert outcome == Delivered(message_id, response="250 2.0.0 queued as 1")
    assert (envelope.mail_from, envelope.rcpt_tos) == ("shop@example.com", ["ada@example.com"])
    assert f"\r\nMessage-ID: {message_id}\r\n".encode() in mail
    assert f"\r\nIdempotency-Key: {message.token}\r\n".encode() in mail
    assert b"\r\nDate: Tue, 01 Jan 2030 00:00:00 +0000\r\n" in mail


async def test_R9_attempt_sends_the_same_bytes() -> None:
    mail = Email("ada@example.com", subject="Grüße", text="a", html="b", attachments=[Attachment("c.bin", b"c")])
    async with mail_server() as server, channel_to(server.port) as channel:
        await channel.send(mail_message(mail, attempt=1), timeout=30)
        await channel.send(mail_message(mail, attempt=2, generation=1, delivery_id=8), timeout=30)

    assert server.mails[0] == server.mails[1]


async def test_event_without_an_email_is_mailed_as_its_payload() -> None:
    async with mail_server() as server, channel_to(server.port) as channel:
        await channel.send(mail_message(None, payload='{"memo": 7}'), timeout=30)

    [mail] = server.mails
    head, _, body = mail.partition(b"\r\n\r\n")
    assert b"\r\nSubject: memo.created\r\n" in head
    assert json.loads(body) == {"memo": 7}
    assert b'\r\n  "memo": 7\r\n' in body


async def test_lines_with_dots_and_large_attachments_arrive_whole() -> None:
    mail = Email("ada@example.com", text=".\n..\n.a\n", attachments=[Attachment("a.bin", bytes(3_000_000))])
    async with mail_server() as server, channel_to(server.port) as channel:
        outcome = await channel.send(mail_message(mail), timeout=20)

    assert isinstance(outcome, Delivered)
    assert b"\r\n\r\n.\r\n..\r\n.a\r\n" in server.mails[0]
    assert len(server.mails[0]) > 4_000_000


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_smtp_session_is_encrypted_and_logged_in(security: str, tmp_path: Path) -> None:
    async with (
        mail_server(tls=security == "tls", starttls=security == "starttls", password="right") as server,
        channel_to(server.port, security=security, user="shop", password="right", ca=trusted(tmp_path)) as channel,
    ):
        outcomes = [await channel.send(mail_message(), timeout=30) for _ in range(2)]

    assert [type(each) for each in outcomes] == [Delivered, Delivered]
    assert len(server.connections) == 1
    assert all(server.ciphers)


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_server_whose_certificate_is_not_trusted_gets_neither_mail_nor_password(security: str) -> None:
    async with (
        mail_server(tls=security == "tls", starttls=security == "starttls", password="right") as server,
        channel_to(server.port, security=security, user="shop", password="right") as channel,
    ):
        outcome = await channel.send(mail_message(), timeout=30)

    assert outcome == Deferred(
        "our_server", "no TLS with the mail server: CERTIFICATE_VERIFY_FAILED", fault=Fault.CHANNEL
    )
    assert server.envelopes == []


async def test_server_without_starttls_is_not_sent_anything_in_the_clear() -> None:
    async with mail_server() as server, channel_to(server.port, security="starttls") as channel:
        outcome = await channel.send(mail_message(), timeout=30)

    assert isinstance(outcome, Deferred)
    assert (outcome.code, server.envelopes) == ("our_server", [])


async def test_password_that_is_wrong_is_our_fault_and_never_shown() -> None:
    async with (
        mail_server(password="right") as server,
        channel_to(server.port, user="shop", password="wrong-secret") as channel,
    ):
        outcome = await channel.send(mail_message(), timeout=30)

    assert outcome == Deferred("our_credentials", "the mail server does not let us log in: 535", fault=Fault.CHANNEL)
    assert "wrong-secret" not in repr(outcome)


async def test_server_that_wants_a_log_in_that_we_do_not_have_is_our_fault() -> None:
    async with mail_server(password="right") as server, channel_to(server.port) as channel:
        outcome = await channel.send(mail_message(), timeout=30)

    assert isinstance(outcome, Deferred)
    assert outcome.code == "our_credentials"


async def test_password_that_is_wrong_is_not_tried_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp_session, "REST_SECONDS", 0.0)  # which is for other troubles
    async with (
        mail_server(password="right") as server,
        channel_to(server.port, user="shop", password="wrong") as channel,
    ):
        outcomes = [await channel.send(mail_message(), timeout=30) for _ in range(5)]

    assert outcomes == outcomes[:1] * 5
    assert len(server.connections) == 1


async def test_connections_stay_open_and_there_are_no_more_than_the_pool_has() -> None:
    async with mail_server() as server, channel_to(server.port, pool=3) as channel:
        outcomes = await asyncio.gather(*(channel.send(mail_message(), timeout=10) for _ in range(30)))

        assert {type(each) for each in outcomes} == {Delivered}
        assert len(server.connections) == 3
    assert len(server.envelopes) == 30


async def test_connections_that_the_server_has_closed_are_replaced_without_a_word() -> None:
    async with mail_server() as server, channel_to(server.port) as channel:
        await channel.send(mail_message(), timeout=30)
        server.drop_connections()
        outcome = await channel.send(mail_message(), timeout=30)

    assert isinstance(outcome, Delivered)
    assert (len(server.connections), len(server.envelopes)) == (2, 2)


async def test_connections_that_are_idle_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp_session, "IDLE_SECONDS", 0.05)
    async with mail_server() as server, channel_to(server.port) as channel:
        await channel.send(mail_message(), timeout=30)
        [connection] = server.connections

        await until_async(lambda: connection.transport is None, "the server sees the connection end")


async def test_connection_that_was_used_again_meanwhile_is_closed_when_it_is_idle_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(smtp_session, "IDLE_SECONDS", 0.5)
    async with mail_server() as server, channel_to(server.port) as channel:
        for _ in range(3):
            await channel.send(mail_message(), timeout=30)

        await until_async(
            lambda: all(each.transport is None for each in server.connections), "the server sees them all end"
        )


async def test_channel_that_is_closed_closes_its_connections_and_can_be_used_again() -> None:
    async with mail_server() as server, channel_to(server.port) as channel:
        await channel.send(mail_message(), timeout=30)
        await channel.close()
        await until_async(lambda: server.connections[0].transport is None, "the server sees the connection end")

        assert isinstance(await channel.send(mail_message(), timeout=30), Delivered)
        assert len(server.connections) == 2


async def test_send_that_is_cut_off_leaves_no_half_used_connection_behind() -> None:
    began = asyncio.Event()

    class Slow:
        async def handle_DATA(self, *_: object) -> str:
            began.set()
            await asyncio.Event().wait()
            return ""

    async with mail_server() as server, channel_to(server.port) as channel:
        await channel.send(mail_message(), timeout=30)
        [connection] = server.connections
        connection.event_handler = Slow()
        connection._handle_hooks = {"DATA": Slow().handle_DATA}
        sending = asyncio.create_task(channel.send(mail_message(), timeout=30))
        await asyncio.wait_for(began.wait(), 50)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

        assert isinstance(await channel.send(mail_message(), timeout=30), Delivered)
        assert len(server.connections) == 2


async def test_mailbox_outside_ascii_goes_to_servers_that_take_it_and_is_refused_by_others() -> None:
    message = mail_message(Email("ügür@example.com", text="x"))
    async with mail_server() as able, channel_to(able.port) as channel:
        delivered = await channel.send(message, timeout=30)
    async with mail_server(enable_SMTPUTF8=False) as unable, channel_to(unable.port) as channel:
        refused = await channel.send(message, timeout=30)
        again = await channel.send(mail_message(), timeout=30)

    assert isinstance(delivered, Delivered)
    assert able.envelopes[0].rcpt_tos == ["ügür@example.com"]
    assert refused == Refused("no_smtputf8", "the mail server takes ASCII addresses only", fault=Fault.RECIPIENT)
    assert isinstance(again, Delivered)
    assert len(unable.connections) == 1


async def test_R15_mail_that_is_too_large_for_the_server_is_refused_before_it_is_sent() -> None:
    mail = Email("ada@example.com", text="x" * 20_000)
    async with mail_server(data_size_limit=10_000) as server, channel_to(server.port) as channel:
        outcome = await channel.send(mail_message(mail), timeout=30)
        again = await channel.send(mail_message(), timeout=30)

    assert isinstance(outcome, Refused)
    assert outcome.code == "smtp_552"
    assert isinstance(again, Delivered)


@pytest.mark.parametrize(
    "content",
    [
        "not JSON",
        "[]",
        '{"text": "x", "headers": {"Bcc": "eve@example.com"}}',
        '{"text": "x", "headers": {"Resent-Bcc": "eve@example.com"}}',
        '{"text": "x", "subject": "a\\r\\nBcc: eve@example.com"}',
        '{"text": "x", "sender": "a@b.c>\\r\\nRCPT TO:<eve@example.com"}',
        '{"text": "x", "sender": "nobody"}',
    ],
)
async def test_content_that_is_no_email_is_refused_and_nothing_is_dialled(content: str) -> None:
    async with mail_server() as server, channel_to(server.port) as channel:
        outcome = await channel.send(mail_message(LETTER, content=content), timeout=30)

    assert isinstance(outcome, Refused)
    assert (outcome.code, server.connections) == ("bad_content", [])
    assert "eve" not in repr(outcome)


async def test_wait_for_a_free_connection_is_nobodys_failure() -> None:
    async with mail_server() as server, channel_to(server.port, pool=1) as channel:
        await channel.send(mail_message(), timeout=30)
        async with channel._pool.slots:
            outcome = await channel.send(mail_message(), timeout=0.1)

    assert isinstance(outcome, Deferred)
    assert outcome.code == "connections_busy"


async def test_whole_send_never_takes_longer_than_it_may() -> None:
    async with mail_server() as server, channel_to(server.port) as channel:
        await channel.send(mail_message(), timeout=30)
        loop = asyncio.get_running_loop()
        server.connections[0]._handle_hooks = {"DATA": lambda *_: asyncio.Event().wait()}
        begun = loop.time()
        outcome = await channel.send(mail_message(), timeout=4)

    assert isinstance(outcome, Unknown)
    assert loop.time() - begun >= 3.9
