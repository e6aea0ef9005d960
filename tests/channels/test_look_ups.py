"""A subscription's receiver, asked where the subscription says: what it is shown, and what each answer means."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from sendonce.channels import CannotTell, Found, LookUp, NoAnswer, NotThere
from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.endpoint import HttpProfile
from sendonce.channels.http.guard import Guard
from sendonce.channels.http.look_ups import SubscriptionLookUps
from sendonce.channels.protocol import Credentials
from sendonce.channels.registry import builtin
from sendonce.domain.destinations import normalise_ask
from sendonce.errors import BadDestination, BadWebhook
from sendonce.inbox.webhooks import verify
from sendonce.signing import key_of, new_secret
from tests.channels.sending import Seen, message_to
from tests.channels.troubles import HOST, raw_server

LOOPBACK = Guard.parse("127.0.0.0/8")
SECRET = new_secret()
RECORDED = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SIGNED = Credentials(signing=(key_of(SECRET),), bearer="b3arer", headers={"X-Own": "1"})


@pytest_asyncio.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient(LOOPBACK)
    yield client
    await client.close()


async def asked(
    client: HttpClient, answer: bytes, *, credentials: Credentials = SIGNED, to: str | None = None
) -> tuple[LookUp, Seen]:
    seen = Seen(answer)
    async with raw_server(seen.connected) as port:
        here = f"http://{HOST}:{port}"
        message = message_to(
            to or f"{here}/hook", ask=f"{here}/receipts/{{token}}?x=1", credentials=credentials, recorded_at=RECORDED
        )
        found = await SubscriptionLookUps(client).look_up(message, timeout=30)
        assert seen.requests == [] or message.token.encode() in seen.requests[0]
    return found, seen


def said(status: int, body: object = None, *more: str) -> bytes:
    text = body if isinstance(body, str) else json.dumps(body)
    return "\r\n".join([f"HTTP/1.1 {status} Said", f"Content-Length: {len(text)}", *more, "", text]).encode()


async def test_look_up_is_a_get_of_the_token_and_signed_as_nothing_else(client: HttpClient) -> None:
    _, seen = await asked(client, said(404, {"found": False}))

    assert seen.requests[0].startswith(b"GET /receipts/")
    shown = seen.headers()
    token = shown["webhook-id"].removeprefix("look-up:")
    assert seen.requests[0].startswith(f"GET /receipts/{token}?x=1 HTTP/1.1".encode())
    recorded_at = str(int(RECORDED.timestamp()))
    assert shown["sendonce-recorded-at"] == recorded_at
    assert verify(shown, recorded_at.encode(), SECRET).id == f"look-up:{token}"
    # Nobody can show it to the receiver as the webhook itself, nor have it look for another age.
    for headers, body in (
        ({**shown, "webhook-id": token}, recorded_at.encode()), (shown, b""), (shown, b"1"),
    ):  # fmt: skip
        with pytest.raises(BadWebhook):
            verify(headers, body, SECRET)


async def test_secrets_that_are_no_signature_go_to_the_host_that_they_are_for(client: HttpClient) -> None:
    _, at_home = await asked(client, said(404, {"found": False}))
    _, elsewhere = await asked(client, said(404, {"found": False}), to="https://hooks.example/orders")
    _, other_port = await asked(client, said(404, {"found": False}), to=f"http://{HOST}:9/hook")

    assert at_home.headers()["authorization"] == "Bearer b3arer"
    assert at_home.headers()["x-own"] == "1"
    for seen in (elsewhere, other_port):
        assert not {"authorization", "x-own"} & set(seen.headers())
        assert "webhook-signature" in seen.headers()


async def test_look_up_for_a_subscription_that_is_not_signed_says_so_by_having_no_signature(client: HttpClient) -> None:
    _, seen = await asked(client, said(404, {"found": False}), credentials=Credentials())

    assert "webhook-signature" not in seen.headers()


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (said(200, {"found": True}), Found()),
        (said(200, {"found": True, "received_at": "2026-01-31T12:00:01+00:00", "result": "paid"}),
         Found(sent_at=RECORDED + timedelta(seconds=1))),
        (said(200, {"found": True, "received_at": "yesterday"}), Found()),
        (said(404, {"found": False}), NotThere()),
        (said(410, {"found": None}), CannotTell("too_old", "the receiver no longer knows what it had at that time")),
    ],
)  # fmt: skip
async def test_answer_that_says_found_or_not_is_believed(client: HttpClient, answer: bytes, meaning: LookUp) -> None:
    assert (await asked(client, answer))[0] == meaning


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (said(404, "not found"), "malformed_answer"),
        (said(404, {"error": "no such page"}), "malformed_answer"),
        (said(404, {"found": None}), "malformed_answer"),
        (said(404, {"found": True}), "malformed_answer"),
        (said(404, {"found": 0}), "malformed_answer"),
        (said(410, "gone"), "malformed_answer"),
        (said(410, {"found": False}), "malformed_answer"),
        (said(200, "[]"), "malformed_answer"),
        (said(200, {"found": "yes"}), "malformed_answer"),
        (said(200, "[" * 15_000), "malformed_answer"),
        (said(200, ""), "malformed_answer"),
        (said(204, ""), "http_204"),
        (said(301, "", "Location: http://127.0.0.1/"), "http_301"),
        (said(401, {"found": False}), "http_401"),
        (said(500, {"found": False}), "http_500"),
    ],
)  # fmt: skip
async def test_answer_of_a_gateway_or_of_nobody_has_nothing_sent_again(
    client: HttpClient, answer: bytes, code: str
) -> None:
    meaning, _ = await asked(client, answer)

    assert isinstance(meaning, NoAnswer)
    assert meaning.code == code


async def test_receiver_that_is_busy_is_asked_again_when_it_says(client: HttpClient) -> None:
    meaning, _ = await asked(client, said(429, "", "Retry-After: 7"))

    assert isinstance(meaning, NoAnswer)
    assert meaning.again_in == timedelta(seconds=7)


async def test_address_inside_is_not_asked() -> None:
    client = HttpClient(Guard.parse(""))
    meaning, seen = await asked(client, said(200, {"found": True}))
    await client.close()

    assert isinstance(meaning, NoAnswer)
    assert meaning.code == "address_forbidden"
    assert seen.requests == []


def test_subscription_that_says_where_can_be_asked_and_another_one_not() -> None:
    profiles = [HttpProfile(name="own", url="https://own.example/", look_up="https://own.example/{token}")]
    channels = builtin(profiles=profiles)
    channels.open_to_subscriptions("https://own.example/")
    ask = "https://hooks.example/{token}"

    def finds(address: str, ask: str | None) -> str:
        found = channels.find_asking(address, is_subscription=True, ask=ask)
        assert (found is not None) is channels.can_look_up(address, is_subscription=True, ask=ask)
        return type(found).__name__

    assert finds("https://hooks.example/a", None) == "NoneType"
    assert finds("https://hooks.example/a", ask) == "SubscriptionLookUps"
    # Our own profile goes before what a tenant says.
    assert finds("https://own.example/a", ask) == "AskingEndpoint"
    assert channels.can_look_up("fax:1", is_subscription=True, ask=ask) is None


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("https://h.example/r/{token}", "https://h.example/r/{token}"),
        ("HTTPS://H.Example:443/r/{token}?x=1", "https://h.example/r/{token}?x=1"),
        ("https://h.example?t={token}", "https://h.example/?t={token}"),
    ],
)
def test_address_to_ask_at_has_one_spelling(text: str, spelled: str) -> None:
    assert normalise_ask(text) == spelled


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("https://h.example/", "has {token} in it once"),
        ("https://{token}.example/", "after the host"),
        ("https://h{token}", "after the host"),
        ("https://h.example/{token}/{token}", "has {token} in it once"),
        ("ftp://h.example/{token}", "begins with https:// or http://"),
        ("h.example/{token}", "begins with https:// or http://"),
        ("https://u:p@h.example/{token}", "must not carry a user name"),
        ("https://h.example/{token}" + "a" * 2000, "may be 2000 bytes long"),
    ],
)  # fmt: skip
def test_address_that_cannot_be_asked_at_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(BadDestination) as caught:
        normalise_ask(text)

    assert sentence in str(caught.value)
