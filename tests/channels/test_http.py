"""HTTP endpoints with a profile: the secret they get, the id they give, and what they answer when they are asked."""

import errno
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from sendonce.channels import (
    CannotTell,
    Deferred,
    Delivered,
    Failed,
    Found,
    LookUp,
    NoAnswer,
    NotThere,
    Refused,
    Unknown,
)
from sendonce.channels.http import webhook
from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.endpoint import AskingEndpoint, HttpEndpoint, HttpProfile, endpoint
from sendonce.channels.http.guard import Guard
from sendonce.channels.protocol import Asking, Channel, Credentials, Message, memory_of
from sendonce.domain.outcomes import Outcome
from sendonce.errors import ConfigError
from sendonce.signing import key_of, new_secret
from tests.channels.contract import AskingContract, ChannelContract
from tests.channels.http_troubles import place_in_trouble
from tests.channels.sending import PAYLOAD, Seen, message_to
from tests.channels.troubles import HOST, authority, raw_server, server_context

LOOPBACK = Guard.parse("127.0.0.0/8")
SECRET = "s3cret-of-the-runner"
RECENTLY = datetime.now(UTC) - timedelta(minutes=1)


@pytest_asyncio.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient(LOOPBACK)
    yield client
    await client.close()


def answer(status: int, body: object = None, **headers: str) -> bytes:
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(text.encode())}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", text]).encode()


class TestEndpointInTrouble(AskingContract):
    column = "HTTP endpoint"

    @asynccontextmanager
    async def in_trouble(self, trouble: str) -> AsyncIterator[tuple[Channel, Message]]:
        async with place_in_trouble(trouble) as place:
            channel = AskingEndpoint(
                HttpProfile(name="runner", url=f"{place}/", look_up=f"{place}/{{token}}"), HttpClient(LOOPBACK)
            )
            yield channel, message_to(f"{place}/token-in-path?secret=1", recorded_at=RECENTLY)
            await channel.close()


class TestEndpointThatCannotBeAskedInTrouble(ChannelContract):
    column = "HTTP endpoint"

    @asynccontextmanager
    async def in_trouble(self, trouble: str) -> AsyncIterator[tuple[Channel, Message]]:
        async with place_in_trouble(trouble) as place:
            channel = HttpEndpoint(HttpProfile(name="runner", url=f"{place}/"), HttpClient(LOOPBACK))
            yield channel, message_to(f"{place}/token-in-path?secret=1")
            await channel.close()


class TestSending:
    async def test_D2_event_is_posted_with_the_configured_secret(self, client: HttpClient) -> None:
        seen, outcome = await self.sent(client, bearer=SECRET, headers={"X-Service": "shop"})

        assert outcome == Delivered()
        assert seen.requests[0].startswith(b"POST /dispatch HTTP/1.1\r\n")
        assert seen.headers()["authorization"] == f"Bearer {SECRET}"
        assert seen.headers()["x-service"] == "shop"
        assert seen.body() == PAYLOAD.encode()

    async def test_D4_attempt_carries_the_same_id(self, client: HttpClient) -> None:
        tokens = set()
        for attempt in (1, 2, 3):
            seen, _ = await self.sent(client, attempt=attempt, generation=attempt, address_of="https://runner.example/")
            tokens.add(seen.headers()["idempotency-key"])

        assert len(tokens) == 1

    async def test_events_header_cannot_replace_the_secret(self, client: HttpClient) -> None:
        seen, _ = await self.sent(client, bearer=SECRET, event_headers='{"Authorization": "Bearer forged"}')

        assert seen.headers()["authorization"] == f"Bearer {SECRET}"

    async def test_subscriptions_own_secrets_go_before_the_profiles(self, client: HttpClient) -> None:
        credentials = Credentials(bearer="own-bearer", signing=(key_of(new_secret()),))
        seen, _ = await self.sent(client, bearer=SECRET, credentials=credentials)

        assert seen.headers()["authorization"] == "Bearer own-bearer"
        assert seen.headers()["webhook-signature"].startswith("v1,")

    @pytest.mark.parametrize(
        ("number", "says"),
        [(errno.EMFILE, "at a limit of its own"), (errno.EROFS, "no file can be written for OpenSSL")],
    )
    async def test_certificate_that_cannot_be_used_says_what_our_machine_lacks(
        self, client: HttpClient, monkeypatch: pytest.MonkeyPatch, number: int, says: str
    ) -> None:
        def lacking(*_: object) -> ssl.SSLContext:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(webhook, "context_of", lacking)
        seen, outcome = await self.sent(client, credentials=Credentials(certificate="of a subscription"))

        assert isinstance(outcome, Deferred)
        assert outcome.code == "our_server"
        assert says in outcome.message
        assert seen.requests == []

    async def test_header_is_the_subscriptions_else_the_profiles_else_the_events(self, client: HttpClient) -> None:
        seen, _ = await self.sent(
            client,
            headers={"X-A": "profile", "X-B": "profile"},
            credentials=Credentials(headers={"X_A": "subscription"}),
            event_headers='{"x-a": "event", "X-B": "event", "X-C": "event"}',
        )

        assert seen.headers()["x_a"] == "subscription"
        assert (seen.headers().get("x-a"), seen.headers()["x-b"]) == (None, "profile")
        assert seen.headers()["x-c"] == "event"

    @pytest.mark.parametrize(
        ("said", "profile", "id"),
        [
            (answer(200, {"id": "run-7"}), {}, "run-7"),
            (answer(201, {"id": 42}), {}, "42"),
            (answer(200, {"run": "r-1"}), {"id_field": "run"}, "r-1"),
            (answer(202, X_Run_Id="h-1"), {"id_header": "X-Run-Id"}, "h-1"),
            (answer(200, {"id": "j-1"}), {"id_header": "X-Run-Id"}, "j-1"),
            (answer(200, {"id": True}), {}, None),
            (answer(200, {"id": ""}), {}, None),
            (answer(200, [1]), {}, None),
            (answer(200, "not JSON"), {}, None),
            (answer(204), {}, None),
        ],
    )
    async def test_R9_its_id_for_the_message_is_kept(
        self, client: HttpClient, said: bytes, profile: dict[str, Any], id: str | None
    ) -> None:
        _, outcome = await self.sent(client, said, **profile)
        _, asked = await self.sent(client, said, look_up="http://127.0.0.1:1/{token}", **profile)

        assert isinstance(outcome, Delivered)
        assert outcome.notification_id == id
        assert isinstance(asked, Delivered)
        assert asked.notification_id == (id or message_to("http://runner.example/").token)

    @pytest.mark.parametrize("ids", [{"id_field": "run"}, {"id_header": "X-Run-Id"}])
    async def test_R18_one_that_has_ids_and_gives_none_has_no_id(self, client: HttpClient, ids: dict[str, Any]) -> None:
        """Which the engine takes for Unknown, and asks."""
        _, outcome = await self.sent(client, answer(200, {}), look_up="http://127.0.0.1:1/{token}", **ids)

        assert isinstance(outcome, Delivered)
        assert outcome.notification_id is None

    async def test_secret_that_it_does_not_take_is_our_fault(self, client: HttpClient) -> None:
        _, with_secret = await self.sent(client, answer(401), bearer=SECRET)
        _, without = await self.sent(client, answer(401))

        assert isinstance(with_secret, Deferred)
        assert with_secret.code == "our_credentials"
        assert isinstance(without, Refused)

    @pytest.mark.parametrize("status", [500, 501, 502, 504, 505, 599])
    @pytest.mark.parametrize("look_up", [None, "http://127.0.0.1:1/{token}"])
    async def test_R11_nobody_knows_after_it_failed_with_the_message_in_hand(
        self, client: HttpClient, status: int, look_up: str | None
    ) -> None:
        """A gateway or a crash of theirs can follow the moment in which they took it."""
        _, outcome = await self.sent(client, answer(status, "oops"), look_up=look_up)

        assert outcome == Unknown(f"http_{status}", "it failed while it had the message", "oops")

    @pytest.mark.parametrize("said", [answer(408), answer(429), answer(503), answer(503, Retry_After="5")])
    async def test_receiver_that_refused_is_not_asked(self, client: HttpClient, said: bytes) -> None:
        _, outcome = await self.sent(client, said, look_up="http://127.0.0.1:1/{token}")

        assert isinstance(outcome, Failed | Deferred)

    async def test_answer_that_repeats_the_secret_is_kept_without_it(self, client: HttpClient) -> None:
        _, outcome = await self.sent(client, answer(422, f"Bearer {SECRET} is fine"), bearer=SECRET)

        assert isinstance(outcome, Refused)
        assert outcome.response == "Bearer ••• is fine"

    @pytest.mark.parametrize("path", ["jobs/../admin", "jobs/%2e%2e/admin", "jobs/./../admin", "jobs/.%2E/"])
    async def test_dots_in_a_path_do_not_take_the_secret_elsewhere(self, client: HttpClient, path: str) -> None:
        seen = Seen()
        async with raw_server(seen.connected) as port:
            profile = HttpProfile(name="runner", url=f"http://{HOST}:{port}/jobs/", bearer=SECRET)
            outcome = await HttpEndpoint(profile, client).send(message_to(f"http://{HOST}:{port}/{path}"), timeout=30)

        assert isinstance(outcome, Refused)
        assert outcome.code == "address_forbidden"
        assert not seen.requests

    async def test_certificate_and_an_authority_of_ones_own(self, client: HttpClient) -> None:
        own = authority().issue_cert("client.example").private_key_and_cert_chain_pem.bytes().decode()
        ca = authority().cert_pem.bytes().decode()
        seen = Seen()
        context = server_context()
        context.verify_mode = context.verify_mode.CERT_REQUIRED
        authority().configure_trust(context)
        async with raw_server(seen.connected, context=context) as port:
            url = f"https://{HOST}:{port}/"
            profile = HttpProfile(name="runner", url=url, certificate=own, ca=ca, look_up=f"{url}{{token}}")
            channel = AskingEndpoint(profile, client)
            outcome = await channel.send(message_to(url), timeout=30)
            await channel.look_up(message_to(url), timeout=30)

        assert isinstance(outcome, Delivered)
        assert len(seen.requests) == 2

    async def sent(
        self,
        client: HttpClient,
        said: bytes = b"HTTP/1.1 204 No Content\r\n\r\n",
        *,
        credentials: Credentials | None = None,
        event_headers: str | None = None,
        attempt: int = 1,
        generation: int = 0,
        address_of: str = "http://runner.example/",
        **profile: Any,
    ) -> tuple[Seen, Outcome]:
        seen = Seen(said)
        async with raw_server(seen.connected) as port:
            url = f"http://{HOST}:{port}/"
            channel = endpoint(HttpProfile(name="runner", url=url, **profile), client)
            message = message_to(
                address_of,
                credentials=credentials or Credentials(),
                headers=event_headers,
                attempt=attempt,
                generation=generation,
            )
            message.address = f"{url}dispatch"
            return seen, await channel.send(message, timeout=30)


class TestAsking:
    @pytest.mark.parametrize(
        ("said", "profile", "expected"),
        [
            (answer(200, {"id": "run-7"}), {}, Found("run-7")),
            (answer(200, {}), {}, Found()),
            (answer(200, {}, X_Id="h-1"), {"id_header": "X-Id"}, Found("h-1")),
            (
                answer(200, {"id": 1, "sent_at": "2030-01-02T03:04:05Z"}),
                {},
                Found("1", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
            ),
            (
                answer(200, {"id": 1, "created_at": "2030-01-02T03:04:05"}),
                {},
                Found("1", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
            ),
            (answer(200, {"id": 1, "sent_at": "yesterday"}), {}, Found("1")),
            (answer(200, {"id": 1, "sent_at": 12}), {}, Found("1")),
            (answer(404), {}, NotThere()),
        ],
    )
    async def test_R11_it_is_found_or_not(
        self, client: HttpClient, said: bytes, profile: Mapping[str, Any], expected: LookUp
    ) -> None:
        seen, answered = await self.asked(client, said, **profile)

        token = message_to("http://runner.example/").token
        assert answered == expected
        assert seen.requests[0].startswith(f"GET /deliveries/{token} HTTP/1.1\r\n".encode())

    @pytest.mark.parametrize("status", [201, 204, 301, 400, 403, 405, 410, 429, 500, 503])
    async def test_status_of_any_other_kind_is_no_answer(self, client: HttpClient, status: int) -> None:
        _, answered = await self.asked(client, answer(status, None if status == 204 else {"id": "1"}, Retry_After="7"))

        assert isinstance(answered, NoAnswer)
        assert (answered.code, answered.again_in) == (f"http_{status}", timedelta(seconds=7))

    @pytest.mark.parametrize("body", ["", "<html>Sign in</html>", "[]", '{"id": '])
    async def test_page_that_is_there_for_everything_is_no_answer(self, client: HttpClient, body: str) -> None:
        _, answered = await self.asked(client, answer(200, body))

        assert isinstance(answered, NoAnswer)
        assert answered.code == "malformed_answer"

    async def test_secret_is_shown_when_asking_and_a_wrong_one_is_our_fault(self, client: HttpClient) -> None:
        seen, answered = await self.asked(client, answer(401), bearer=SECRET)

        assert seen.headers()["authorization"] == f"Bearer {SECRET}"
        assert isinstance(answered, NoAnswer)
        assert answered.code == "our_credentials"

    async def test_look_up_beyond_the_receivers_memory_cannot_tell(self, client: HttpClient) -> None:
        old, recent = datetime.now(UTC) - timedelta(days=2), RECENTLY
        answers = [
            (await self.asked(client, answer(404), recorded_at=at, remembers=timedelta(days=1)))[1]
            for at in (old, recent)
        ]
        _, found = await self.asked(client, answer(200, {"id": "1"}), recorded_at=old, remembers=timedelta(days=1))

        assert answers == [CannotTell("too_old", "it may have forgotten the message by now"), NotThere()]
        assert found == Found("1")

    async def test_look_up_address_on_a_closed_network_is_our_fault(self) -> None:
        client = HttpClient(Guard())
        seen, answered = await self.asked(client, answer(404))
        await client.close()

        assert isinstance(answered, NoAnswer)
        assert answered.code == "our_look_up"
        assert seen.connections == 0

    def test_endpoint_can_be_asked_only_with_a_look_up_address(self, client: HttpClient) -> None:
        url = "https://runner.example/"
        plain = endpoint(HttpProfile(name="a", url=url), client)
        asking = endpoint(HttpProfile(name="b", url=url, look_up=url + "{token}", remembers=timedelta(days=3)), client)

        assert not isinstance(plain, Asking)
        assert isinstance(asking, Asking)
        assert memory_of(asking) == timedelta(days=3)

    async def asked(
        self, client: HttpClient, said: bytes, *, recorded_at: datetime = RECENTLY, **profile: Any
    ) -> tuple[Seen, LookUp]:
        seen = Seen(said)
        async with raw_server(seen.connected) as port:
            url = f"http://{HOST}:{port}/"
            channel = endpoint(
                HttpProfile(name="runner", url=url, look_up=f"{url}deliveries/{{token}}", **profile), client
            )
            assert isinstance(channel, Asking)
            message = message_to("http://runner.example/", recorded_at=recorded_at)
            return seen, await channel.look_up(message, timeout=30)


class TestProfiles:
    @pytest.mark.parametrize(
        ("settings", "word"),
        [
            ({"url": "https://runner.example/jobs"}, "slash"),
            ({"url": "https://runner.example/?a=/"}, "slash"),
            ({"url": "mailto:ada@example.com"}, "http://"),
            ({"url": "runner.example/"}, "http://"),
            ({"url": "https:///"}, "host"),
            ({"url": "https://ada:pw@runner.example/"}, "password"),
            ({"look_up": "https://runner.example/deliveries/"}, "{token}"),
            ({"look_up": "https://runner.example/{token}/{token}"}, "{token}"),
            ({"look_up": "/deliveries/{token}"}, "http://"),
            ({"remembers": timedelta(days=1)}, "look_up"),
            ({"remembers": timedelta(0), "look_up": "https://runner.example/{token}"}, "above zero"),
            ({"bearer": "two words"}, "bearer"),
            ({"bearer": "line\n"}, "bearer"),
            ({"bearer": ""}, "bearer"),
            ({"headers": {"Host": "evil.example"}}, "Host"),
            ({"headers": {"X-A": "b\r\nc"}}, "X-A"),
            ({"certificate": "no PEM"}, "certificate"),
            ({"ca": "no PEM"}, "authority"),
            ({"policy": {"max_attempt": 3}}, "max_attempt"),
        ],
    )
    def test_mistake_is_one_sentence_that_says_what_to_do(self, settings: dict[str, Any], word: str) -> None:
        with pytest.raises(ConfigError) as caught:
            HttpProfile(**{"name": "runner", "url": "https://runner.example/", **settings})

        assert word in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_endpoint_url_is_spelled_as_destinations_are(self) -> None:
        assert HttpProfile(name="a", url="HTTPS://Runner.Example:443/").url == "https://runner.example/"

    def test_secrets_are_not_shown(self) -> None:
        profile = HttpProfile(name="a", url="https://runner.example/", bearer=SECRET, headers={"X-Key": SECRET})

        assert repr(profile) == "HttpProfile(name='a', url='https://runner.example/')"
