"""http: against a real server: what each answer, and each way not to answer, means."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from datetime import timedelta

import pytest
import pytest_asyncio
from aiohttp import web

from sendonce.channels.http import HttpChannel, outcome_of, retry_after_of
from sendonce.channels.protocol import Message
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Outcome, Refused, Unknown
from tests.domain.values import a_claim
from tests.receiver import Arrival, Receiver

Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest_asyncio.fixture
async def http() -> AsyncIterator[HttpChannel]:
    channel = HttpChannel()
    yield channel
    await channel.close()


def message_to(url: str, **changes: object) -> Message:
    return Message(a_claim(destination=url, address=url, **{"payload": '{"memo": "Grüße"}', **changes}), "here")


@asynccontextmanager
async def raw_server(connected: Connected) -> AsyncIterator[str]:
    """A server that does to a connection what it is told, and no HTTP of its own."""
    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"127.0.0.1:{port}"


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()


async def half_an_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nthe begin")
    await reader.read()
    writer.close()


async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"220 mail.example.com ESMTP\r\n")
    writer.close()


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_the_body_is_posted_with_the_token(http: HttpChannel) -> None:
    with Receiver() as receiver:
        message = message_to(f"{receiver.url}/memo", attempt=3, headers='{"X-Own": "1"}')
        outcome = await http.send(message, timeout=5)

    [arrival] = receiver.arrivals
    assert outcome == Delivered(response="ok")
    assert (arrival.path, arrival.attempt, arrival.token) == ("/memo", 3, message.token)
    assert json.loads(arrival.body) == {"memo": "Grüße"}


async def test_a_destinations_own_content_goes_before_the_payload(http: HttpChannel) -> None:
    with Receiver() as receiver:
        await http.send(message_to(receiver.url, content='{"own": true}'), timeout=5)

    assert receiver.arrivals[0].body == b'{"own": true}'


async def test_an_events_headers_cannot_replace_the_token() -> None:
    seen: list[tuple[str, str]] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        seen.extend((name.lower(), value) for name, _, value in (line.partition(": ") for line in head.split("\r\n")))
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    http = HttpChannel()
    async with raw_server(note) as place:
        message = message_to(f"http://{place}/", headers='{"idempotency-KEY": "forged", "X-Trace": "t-1"}')
        outcome = await http.send(message, timeout=5)
    await http.close()

    assert outcome == Delivered()
    assert [value for name, value in seen if name == "idempotency-key"] == [message.token]
    assert ("x-trace", "t-1") in seen


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (200, {}, Delivered),
        (202, {}, Delivered),
        (204, {}, Delivered),
        (301, {"Location": "/elsewhere"}, Refused),
        (400, {}, Refused),
        (404, {}, Refused),
        (410, {}, Refused),
        (408, {}, Failed),
        (429, {}, Failed),
        (429, {"Retry-After": "7"}, Deferred),
        (500, {}, Failed),
        (503, {}, Failed),
        (503, {"Retry-After": "7"}, Deferred),
    ],
)
async def test_what_a_status_means(
    http: HttpChannel, status: int, headers: dict[str, str], kind: type[Outcome]
) -> None:
    def answer(arrival: Arrival) -> web.Response:
        return web.Response(status=status, headers=headers)

    with Receiver(answer=answer) as receiver:
        outcome = await http.send(message_to(receiver.url), timeout=5)

    assert type(outcome) is kind
    assert len(receiver.arrivals) == 1
    if isinstance(outcome, Deferred):
        assert outcome.again_in == timedelta(seconds=7)


async def test_nobody_listening_means_that_nothing_was_sent(http: HttpChannel) -> None:
    outcome = await http.send(message_to(f"http://127.0.0.1:{free_port()}/"), timeout=5)

    assert isinstance(outcome, Failed)
    assert outcome.code == "cannot_connect"


async def test_a_host_that_does_not_exist_means_that_nothing_was_sent(http: HttpChannel) -> None:
    outcome = await http.send(message_to("http://nowhere.invalid/"), timeout=5)

    assert isinstance(outcome, Failed)


async def test_a_connection_that_never_comes_about_means_that_nothing_was_sent(http: HttpChannel) -> None:
    async with raw_server(silent) as place:
        outcome = await http.send(message_to(f"https://{place}/"), timeout=0.3)

    assert outcome == Failed("cannot_connect", "ConnectionTimeoutError")


@pytest.mark.parametrize("server", [silent, hang_up, nonsense])
async def test_no_answer_to_what_was_sent_is_unknown(http: HttpChannel, server: Connected) -> None:
    async with raw_server(server) as place:
        outcome = await http.send(message_to(f"http://{place}/"), timeout=0.3)

    assert isinstance(outcome, Unknown)


async def test_a_status_counts_even_when_the_rest_of_the_answer_never_comes(http: HttpChannel) -> None:
    async with raw_server(half_an_answer) as place:
        outcome = await http.send(message_to(f"http://{place}/"), timeout=0.3)

    assert isinstance(outcome, Delivered)


async def test_only_the_beginning_of_an_answer_is_kept(http: HttpChannel) -> None:
    def answer(arrival: Arrival) -> web.Response:
        return web.Response(status=500, body=b"\xff" * 1_000_000)

    with Receiver(answer=answer) as receiver:
        outcome = await http.send(message_to(receiver.url), timeout=5)

    assert isinstance(outcome, Failed)
    assert 0 < len(outcome.response or "") <= 2000


async def test_an_error_never_tells_the_address(http: HttpChannel) -> None:
    address = f"http://127.0.0.1:{free_port()}/token-in-path?secret=1"

    outcome = await http.send(message_to(address), timeout=5)

    assert "secret" not in repr(outcome)
    assert "token-in-path" not in repr(outcome)


async def test_a_send_can_be_cut_off(http: HttpChannel) -> None:
    async with raw_server(silent) as place:
        sending = asyncio.create_task(http.send(message_to(f"http://{place}/"), timeout=30))
        await asyncio.sleep(0.05)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("1.5", 1.5),
        ("999999999", 86_400),
        ("inf", 86_400),
        ("-1", None),
        ("nan", None),
        ("soon", None),
        (None, None),
    ],
)
def test_retry_after_in_seconds(value: str | None, seconds: float | None) -> None:
    assert retry_after_of(value) == (None if seconds is None else timedelta(seconds=seconds))


def test_only_2xx_means_delivered() -> None:
    delivered = [status for status in range(100, 600) if isinstance(outcome_of(status, None, ""), Delivered)]

    assert delivered == list(range(200, 300))
