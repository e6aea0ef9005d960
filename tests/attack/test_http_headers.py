"""Whatever a caller, a tenant or a receiver writes into a text: on the wire it is one request, with our lines only."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from sendonce.channels.email.api import MailApi
from sendonce.channels.email.postmark import Postmark, PostmarkSettings
from sendonce.channels.email.resend import Resend, ResendSettings
from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.endpoint import AskingEndpoint, HttpProfile
from sendonce.channels.http.guard import Guard
from sendonce.channels.http.webhook import Webhook
from sendonce.channels.protocol import Credentials
from sendonce.domain.events import NewEvent, new_event
from sendonce.errors import BadDestination, BadEvent, ConfigError
from tests.attack.lines import BREAKS, broken, evil
from tests.channels.sending import Seen, message_to
from tests.channels.troubles import HOST, raw_server

OURS = {
    "host", "user-agent", "accept", "accept-encoding", "content-type", "content-length", "idempotency-key",
    "sendonce-attempt", "sendonce-type", "webhook-id", "webhook-timestamp", "x-given", "authorization",
}  # fmt: skip


@pytest_asyncio.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient(Guard.parse("127.0.0.0/8"))
    yield client
    await client.close()


def recorded(url: str, text: str) -> dict[str, NewEvent]:
    """The events that can be recorded with this text in one of their places."""
    places: dict[str, Callable[[], NewEvent]] = {
        "type": lambda: new_event(text, {}, key="k", to=url),
        "key": lambda: new_event("a.b", {}, key=text, to=url),
        "tenant": lambda: new_event("a.b", {}, key="k", to=url, tenant=text),
        "subject": lambda: new_event("a.b", {}, key="k", to=url, subject=text),
        "payload": lambda: new_event("a.b", {text: text}, key="k", to=url),
        "header": lambda: new_event("a.b", {}, key="k", to=url, headers={"X-Given": text}),
        "header's name": lambda: new_event("a.b", {}, key="k", to=url, headers={text: "1"}),
        "path": lambda: new_event("a.b", {}, key="k", to=f"{url}{text}"),
        "query": lambda: new_event("a.b", {}, key="k", to=f"{url}?q={text}"),
    }
    found, said = {}, []
    for place, record in places.items():
        try:
            found[place] = record()
        except (BadEvent, BadDestination) as error:
            said.append(str(error))
    assert all(len(sentence.splitlines()) == 1 for sentence in said)
    return found


def one_request(seen: Seen) -> None:
    """There was one request, and every line of its head is ours."""
    [request] = seen.requests
    head = request.partition(b"\r\n\r\n")[0]
    names = {line.partition(b":")[0].decode().lower() for line in head.split(b"\r\n")[1:]}
    assert broken(head) == []
    assert names <= OURS
    assert head.split(b"\r\n")[0].count(b" ") == 2


@pytest.mark.parametrize("place", BREAKS)
async def test_header_that_is_recorded_breaks_no_line(client: HttpClient, place: str) -> None:
    webhook, seen = Webhook(client), Seen()
    async with raw_server(seen.connected) as port:
        events = recorded(f"http://{HOST}:{port}/", evil(place))
        for event in events.values():
            seen.requests.clear()
            uri = event.destinations[0].uri
            message = message_to(uri, type=event.type, payload=event.payload, headers=event.headers)
            await webhook.send(message, timeout=30)
            one_request(seen)

    assert "type" not in events


@pytest.mark.parametrize("place", BREAKS)
async def test_header_that_is_stored_breaks_no_line(client: HttpClient, place: str) -> None:
    """Headers and secrets as somebody else may have put them into the database."""
    text, seen = evil(place), Seen()
    async with raw_server(seen.connected) as port:
        url = f"http://{HOST}:{port}/"
        given = {"X-Given": text, text: "1", "x-given": text}
        for credentials in (Credentials(headers=given), Credentials(bearer=text)):
            seen.requests.clear()
            await Webhook(client).send(message_to(url, credentials=credentials, headers=json.dumps(given)), timeout=30)
            if seen.requests:
                one_request(seen)


@pytest.mark.parametrize("place", BREAKS)
def test_profile_settings_break_no_line(place: str) -> None:
    text = evil(place)
    settings: list[dict[str, Any]] = [
        {"bearer": text},
        {"headers": {"X-Given": text}},
        {"headers": {text: "1"}},
        {"url": f"http://{HOST}/{text}/"},
        {"look_up": f"http://{HOST}/{text}/{{token}}"},
    ]

    made, said = [], []
    for each in settings:
        try:
            made.append(HttpProfile(**{"name": "shop", "url": f"http://{HOST}/", **each}))
        except ConfigError as error:
            said.append(str(error))

    assert all(len(sentence.splitlines()) == 1 for sentence in said)
    for profile in made:
        lines = [profile.bearer or "", *profile.headers, *profile.headers.values(), profile.url, profile.look_up or ""]
        assert not any(set(line) & set("\r\n\0") for line in lines)


@pytest.mark.parametrize("place", BREAKS)
async def test_id_that_a_receiver_gave_does_not_break_the_line_of_a_look_up(client: HttpClient, place: str) -> None:
    """Their id comes back into a question only where it has the shape of one."""
    seen = Seen(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}")
    async with raw_server(seen.connected) as port:
        url = f"http://{HOST}:{port}"
        profile = HttpProfile(name="shop", url=f"{url}/", look_up=f"{url}/by/{{token}}")
        resend = Resend(ResendSettings(key="key", sender="shop@example.com", url=url))
        postmark = Postmark(PostmarkSettings(token="token", sender="shop@example.com", url=url))
        for channel in (
            AskingEndpoint(profile, client),
            MailApi(resend, client, sender="shop@example.com"),
            MailApi(postmark, client, sender="shop@example.com"),
        ):
            for id in (evil(place), "0" * 36 + evil(place), "0" * 36 + f"/../{evil(place)}"):
                await channel.look_up(message_to(f"{url}/", notification_id=id), timeout=30)

    for request in seen.requests:
        head = request.partition(b"\r\n\r\n")[0]
        assert broken(head) == []
        assert b"evil" not in head.lower()
