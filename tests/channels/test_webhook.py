"""Webhooks against real servers: what is sent, how it is signed, and what each answer means."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.guard import Guard
from sendonce.channels.http.webhook import Webhook
from sendonce.channels.protocol import Asking, Channel, Credentials, Message
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Outcome, Refused, Unknown
from sendonce.errors import ConfigError
from sendonce.signing import key_of, new_secret
from tests.channels.contract import ChannelContract
from tests.channels.http_troubles import place_in_trouble
from tests.channels.sending import PAYLOAD, Seen, message_to
from tests.channels.troubles import HOST, authority, free_port, raw_server, server_context, silent
from tests.processes import until_async
from tests.receiver import Receiver

LOOPBACK = Guard.parse("127.0.0.0/8")


def _locked() -> str:
    """A client certificate whose key needs a passphrase, as PEM."""
    own = authority().issue_cert("client.example")
    key = load_pem_private_key(own.private_key_pem.bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"passphrase"))
    return (locked + own.cert_chain_pems[0].bytes()).decode()


LOCKED = _locked()


@pytest_asyncio.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient(LOOPBACK)
    yield client
    await client.close()


@pytest.fixture
def webhook(client: HttpClient) -> Webhook:
    return Webhook(client)


class TestWebhookInTrouble(ChannelContract):
    column = "webhook"

    @asynccontextmanager
    async def in_trouble(self, trouble: str) -> AsyncIterator[tuple[Channel, Message]]:
        async with place_in_trouble(trouble) as place:
            channel = Webhook(HttpClient(LOOPBACK))
            yield channel, message_to(f"{place}/token-in-path?secret=1")
            await channel.close()


async def test_body_is_posted_with_the_token(webhook: Webhook) -> None:
    with Receiver() as receiver:
        message = message_to(f"{receiver.url}/memo", attempt=3, headers='{"X-Own": "1"}')
        outcome = await webhook.send(message, timeout=30)

    [arrival] = receiver.arrivals
    assert outcome == Delivered(response="ok")
    assert (arrival.path, arrival.attempt, arrival.token) == ("/memo", 3, message.token)
    assert json.loads(arrival.body) == {"memo": "Grüße"}


async def test_destinations_own_content_goes_before_the_payload(webhook: Webhook) -> None:
    with Receiver() as receiver:
        await webhook.send(message_to(receiver.url, content='{"own": true}'), timeout=30)

    assert receiver.arrivals[0].body == b'{"own": true}'


async def test_D4_attempt_carries_the_same_id_and_the_same_bytes(webhook: Webhook) -> None:
    seen = Seen()
    async with raw_server(seen.connected) as port:
        for attempt in (1, 2, 3):
            await webhook.send(message_to(f"http://{HOST}:{port}/", attempt=attempt, delivery_id=attempt), timeout=30)

    assert len({seen.headers(of)["webhook-id"] for of in range(3)}) == 1
    assert [seen.headers(of)["idempotency-key"] for of in range(3)] == [seen.headers()["webhook-id"]] * 3
    assert {seen.body(of) for of in range(3)} == {PAYLOAD.encode()}
    assert [seen.headers(of)["sendonce-attempt"] for of in range(3)] == ["1", "2", "3"]
    assert seen.headers()["sendonce-type"] == "memo.created"


class TestSigning:
    async def test_subscriptions_signature_is_what_the_standard_says(self, webhook: Webhook) -> None:
        secret = new_secret()
        seen = await self.sent(webhook, Credentials(signing=(key_of(secret),)))

        assert Verifier(secret).verify(seen.body(), seen.headers()) == json.loads(PAYLOAD)
        with pytest.raises(WebhookVerificationError):
            Verifier(new_secret()).verify(seen.body(), seen.headers())
        with pytest.raises(WebhookVerificationError):
            Verifier(secret).verify(seen.body() + b" ", seen.headers())

    async def test_rotation_that_overlaps_verifies_with_both_secrets(self, webhook: Webhook) -> None:
        new, old = new_secret(), new_secret()
        seen = await self.sent(webhook, Credentials(signing=(key_of(new), key_of(old))))

        for secret in (new, old):
            assert Verifier(secret).verify(seen.body(), seen.headers()) == json.loads(PAYLOAD)

    async def test_configured_secret_signs_what_has_none_of_its_own(self, client: HttpClient) -> None:
        configured, own = new_secret(), new_secret()
        webhook = Webhook(client, secret=configured)

        for credentials, secret in ((Credentials(), configured), (Credentials(signing=(key_of(own),)), own)):
            seen = await self.sent(webhook, credentials)
            assert Verifier(secret).verify(seen.body(), seen.headers()) == json.loads(PAYLOAD)
            assert len(seen.headers()["webhook-signature"].split()) == 1

    async def test_webhook_without_a_secret_is_not_signed(self, webhook: Webhook) -> None:
        seen = await self.sent(webhook, Credentials())

        assert "webhook-signature" not in seen.headers()
        assert abs(int(seen.headers()["webhook-timestamp"]) - time.time()) < 60

    def test_secret_that_is_invalid_is_found_at_the_start_and_not_repeated(self, client: HttpClient) -> None:
        with pytest.raises(ConfigError) as caught:
            Webhook(client, secret="whsec_tooshort")

        assert "tooshort" not in str(caught.value)

    async def sent(self, webhook: Webhook, credentials: Credentials) -> Seen:
        seen = Seen()
        async with raw_server(seen.connected) as port:
            outcome = await webhook.send(message_to(f"http://{HOST}:{port}/", credentials=credentials), timeout=30)
        assert outcome == Delivered()
        return seen


class TestHeaders:
    async def test_bearer_and_custom_headers_of_a_subscription_are_sent(self, webhook: Webhook) -> None:
        credentials = Credentials(bearer="s3cret-bearer", headers={"X-Tenant-Key": "k-1", "X-Trace": "own"})
        seen = await self.sent(webhook, credentials, headers='{"X-Trace": "of the event", "X-Event": "1"}')

        assert seen.values("authorization") == ["Bearer s3cret-bearer"]
        assert seen.values("x-tenant-key") == ["k-1"]
        assert seen.values("x-trace") == ["own"]
        assert seen.values("x-event") == ["1"]

    @pytest.mark.parametrize(
        "name",
        [
            "idempotency-KEY", "Webhook-Id", "webhook-signature", "Sendonce-Attempt", "Content-Type", "Content-Length",
            "Host", "Transfer-Encoding", "Connection", "Expect", "webhook_id", "Webhook_Signature", "webhook.timestamp",
            "sendonce_attempt", "SENDONCE_TYPE", "idempotency_key", "Idempotency.Key", "content_length", "content_type",
            "transfer_encoding", "proxy_authorization", "webhook~id",
        ],
    )  # fmt: skip
    async def test_headers_of_ours_cannot_be_replaced(self, webhook: Webhook, name: str) -> None:
        given = {name: "forged"}
        seen = await self.sent(webhook, Credentials(headers=given), headers=json.dumps(given))

        assert b"forged" not in seen.requests[0]
        assert seen.values("idempotency-key") == [seen.headers()["webhook-id"]]
        assert seen.body() == PAYLOAD.encode()

    async def test_headers_alike_to_a_server_go_out_once(self, webhook: Webhook) -> None:
        """The subscription's, before what the event brings along."""
        events = {"x_team": "forged", "X.Team": "forged", "x-other_name": "1"}
        seen = await self.sent(webhook, Credentials(headers={"X-Team": "shop"}), headers=json.dumps(events))

        assert b"forged" not in seen.requests[0]
        assert (seen.values("x-team"), seen.values("x-other_name")) == (["shop"], ["1"])

    @pytest.mark.parametrize("evil", ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rX-Evil: 1", "a\0", "\ud800"])
    async def test_header_that_could_break_a_line_is_left_out(self, webhook: Webhook, evil: str) -> None:
        given = {"X-Value": evil, evil: "1", "X Space": "1", "X-Evil: 1\r\nX-More": "1", "": "1", "X-Good": "ja, ü"}
        seen = await self.sent(webhook, Credentials(headers=given), headers=json.dumps(given))

        assert b"evil" not in seen.requests[0].lower()
        assert seen.values("x-good") == ["ja, ü"]
        assert not seen.values("x-value")

    async def sent(self, webhook: Webhook, credentials: Credentials, *, headers: str) -> Seen:
        seen = Seen()
        async with raw_server(seen.connected) as port:
            message = message_to(f"http://{HOST}:{port}/", credentials=credentials, headers=headers)
            assert await webhook.send(message, timeout=30) == Delivered()
        return seen


class TestAnswers:
    @pytest.mark.parametrize(
        ("status", "headers", "kind"),
        [
            (200, {}, Delivered),
            (202, {}, Delivered),
            (204, {}, Delivered),
            (301, {"Location": "/elsewhere"}, Refused),
            (307, {"Location": "/elsewhere"}, Refused),
            (400, {}, Refused),
            (401, {}, Refused),
            (404, {}, Refused),
            (410, {}, Refused),
            (408, {}, Failed),
            (425, {}, Failed),
            (429, {}, Failed),
            (429, {"Retry-After": "7"}, Deferred),
            (503, {}, Failed),
            (503, {"Retry-After": "7"}, Deferred),
            (503, {"Retry-After": "0"}, Deferred),
            *((status, {}, Unknown) for status in (500, 501, 502, 504, 505, 507, 511, 599)),
            (500, {"Retry-After": "7"}, Unknown),
        ],
    )
    async def test_R14_R15_what_a_status_means(
        self, webhook: Webhook, status: int, headers: dict[str, str], kind: type[Outcome]
    ) -> None:
        outcome, arrivals = await self.answered(webhook, status=status, headers=headers)

        assert type(outcome) is kind
        assert arrivals == 1
        assert getattr(outcome, "code", f"http_{status}") == f"http_{status}"
        if isinstance(outcome, Deferred):
            assert outcome.again_in == timedelta(seconds=int(headers["Retry-After"]))

    async def test_response_is_kept_only_in_its_beginning(self, webhook: Webhook) -> None:
        outcome, _ = await self.answered(webhook, status=500, body=b"\xff" * 1_000_000)

        assert isinstance(outcome, Unknown)
        assert 0 < len(outcome.response or "") <= 2000

    async def test_answer_is_kept_without_what_a_terminal_would_obey(self, webhook: Webhook) -> None:
        outcome, _ = await self.answered(webhook, status=500, body="ä\x1b[2J\0\x9b1m\nline".encode())

        assert isinstance(outcome, Unknown)
        assert outcome.response == "ä�[2J��1m\nline"

    async def test_answer_that_repeats_our_secrets_is_kept_without_them(self, webhook: Webhook) -> None:
        key = key_of(new_secret())
        credentials = Credentials(signing=(key,), bearer="s3cret-bearer", headers={"X-Key": "s3cret/header"})

        async def echo(request: web.BaseRequest) -> web.Response:
            return web.json_response(dict(request.headers), status=400)

        async with _web_server(echo) as url:
            outcome = await webhook.send(message_to(url, credentials=credentials), timeout=30)

        assert isinstance(outcome, Refused)
        assert outcome.response is not None
        assert "v1," in outcome.response
        for secret in ("s3cret-bearer", "s3cret/header", "s3cret\\/header"):
            assert secret not in outcome.response
        signature = json.loads(outcome.response)["webhook-signature"]
        assert signature == "v1,•••"

    async def answered(self, webhook: Webhook, **answer: Any) -> tuple[Outcome, int]:
        with Receiver(answer=lambda arrival: web.Response(**answer)) as receiver:
            outcome = await webhook.send(message_to(receiver.url), timeout=30)
        return outcome, len(receiver.arrivals)


class TestCertificates:
    async def test_subscriptions_certificate_is_shown_to_the_receiver(
        self, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
    ) -> None:
        authority().cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        own = authority().issue_cert("client.example")
        certificate = own.private_key_and_cert_chain_pem.bytes().decode()
        seen = Seen()
        async with raw_server(seen.connected, context=_demanding()) as port:
            url = f"https://{HOST}:{port}/"
            with_it = await webhook.send(message_to(url, credentials=Credentials(certificate=certificate)), timeout=30)

        assert with_it == Delivered()
        assert seen.body() == PAYLOAD.encode()

    @pytest.mark.parametrize(
        "credentials",
        [
            Credentials(certificate="no PEM s3cret"),
            Credentials(certificate=LOCKED + "s3cret"),
            Credentials(bearer="s3cret\r\nX-Evil: 1"),
        ],
        ids=["no PEM", "locked", "two lines"],
    )
    async def test_secrets_that_cannot_be_used_are_our_fault(self, webhook: Webhook, credentials: Credentials) -> None:
        seen = Seen()
        async with raw_server(seen.connected) as port:
            message = message_to(f"http://{HOST}:{port}/", credentials=credentials)
            outcome = await webhook.send(message, timeout=30)

        assert isinstance(outcome, Deferred)
        assert outcome.code == "our_credentials"
        assert "s3cret" not in repr(outcome)
        assert not seen.requests


async def test_receiver_gone_for_good_is_told_apart(webhook: Webhook) -> None:
    with Receiver(answer=lambda arrival: web.Response(status=410)) as receiver:
        outcome = await webhook.send(message_to(receiver.url), timeout=30)

    assert isinstance(outcome, Refused)
    assert outcome.code == "http_410"


async def test_address_on_a_closed_network_is_refused_with_what_to_do() -> None:
    with Receiver() as receiver:
        webhook = Webhook(HttpClient(Guard()))
        outcome = await webhook.send(message_to(receiver.url), timeout=30)
        await webhook.close()

    assert isinstance(outcome, Refused)
    assert outcome.code == "address_forbidden"
    assert "SENDONCE_ALLOW_NETWORKS" in outcome.message
    assert not receiver.arrivals


async def test_error_never_tells_the_address(webhook: Webhook) -> None:
    address = f"http://{HOST}:{free_port()}/token-in-path?secret=1"

    outcome = await webhook.send(message_to(address), timeout=30)

    assert "secret" not in repr(outcome)
    assert "token-in-path" not in repr(outcome)


async def test_send_can_be_cut_off(webhook: Webhook) -> None:
    began: list[bool] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began.append(bool(await reader.readline()))
        await silent(reader, writer)

    async with raw_server(listen) as port:
        sending = asyncio.create_task(webhook.send(message_to(f"http://{HOST}:{port}/"), timeout=30))
        await until_async(lambda: began, "the request to arrive")
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending


def test_webhook_cannot_be_asked(webhook: Webhook) -> None:
    assert not isinstance(webhook, Asking)


def _demanding() -> ssl.SSLContext:
    """A server's side of TLS that wants to see a certificate of ours."""
    context = server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    authority().configure_trust(context)
    return context


@asynccontextmanager
async def _web_server(handler: Any) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0)
    await site.start()
    try:
        yield "http://{}:{}/".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()
