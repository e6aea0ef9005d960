"""Names that change their minds: a connection only ever goes to an address that was vetted itself.

127.0.0.2 stands for the internet (the guard has it open), 127.0.0.1 for the inside (closed), with a server on the same
port of both. The names come from a real name server, which lets nobody remember them unless a test says so.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from sendonce.channels.http.client import Answered, Forbidden, HttpAnswer, HttpClient
from sendonce.channels.http.endpoint import AskingEndpoint, HttpProfile
from sendonce.channels.http.guard import Guard
from sendonce.domain.outcomes import NoAnswer
from tests.attack.dns import NameServer
from tests.channels.sending import Seen, message_to
from tests.channels.troubles import Connected

OUTSIDE, INSIDE = "127.0.0.2", "127.0.0.1"
NAME = "rebinding.example"
ANSWER = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Street:
    """The same port on both sides, and a client for which only one of them is open."""

    def __init__(self, port: int, outside: Seen, inside: Seen, client: HttpClient) -> None:
        self.port, self.outside, self.inside, self.client = port, outside, inside, client

    async def post(self) -> Answered:
        return await self.client.request("POST", f"http://{NAME}:{self.port}/", body=b"{}", headers={}, timeout=30)


@asynccontextmanager
async def street(names: NameServer) -> AsyncIterator[Street]:
    outside, inside = Seen(ANSWER), Seen(ANSWER)
    first = await asyncio.start_server(_closing(outside), OUTSIDE, 0)
    port = int(first.sockets[0].getsockname()[1])
    second = await asyncio.start_server(_closing(inside), INSIDE, port)
    client = HttpClient(Guard.parse(f"{OUTSIDE}/32"), name_servers=[names.address])
    try:
        yield Street(port, outside, inside, client)
    finally:
        await client.close()
        for server in (first, second):
            server.close()


def _closing(seen: Seen) -> Connected:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await seen.connected(reader, writer)
        writer.close()

    return connected


async def test_name_that_turns_inside_is_refused_from_then_on(names: NameServer, dialled: list[str]) -> None:
    names.says(NAME, [OUTSIDE], [INSIDE])
    async with street(names) as here:
        answers = [await here.post() for _ in range(3)]

    assert [type(each) for each in answers] == [HttpAnswer, Forbidden, Forbidden]
    assert names.asked == [NAME] * 3
    assert (dialled, len(here.outside.requests), here.inside.connections) == ([OUTSIDE], 1, 0)


async def test_name_that_turns_inside_while_it_is_remembered_is_dialled_where_it_was_vetted(
    names: NameServer, dialled: list[str]
) -> None:
    names.ttl = 60
    names.says(NAME, [OUTSIDE], [INSIDE])
    async with street(names) as here:
        answers = [await here.post() for _ in range(3)]

    assert [type(each) for each in answers] == [HttpAnswer] * 3
    assert names.asked == [NAME]
    assert (set(dialled), here.inside.connections) == ({OUTSIDE}, 0)


@pytest.mark.parametrize("order", [[OUTSIDE, INSIDE], [INSIDE, OUTSIDE], [INSIDE, "::1", OUTSIDE, "10.0.0.1"]])
async def test_addresses_that_are_closed_are_skipped_among_several(
    names: NameServer, dialled: list[str], order: list[str]
) -> None:
    names.says(NAME, order)
    async with street(names) as here:
        answers = [await here.post() for _ in range(4)]

    assert [type(each) for each in answers] == [HttpAnswer] * 4
    assert (dialled, here.inside.connections) == ([OUTSIDE] * 4, 0)


async def test_address_that_is_closed_is_no_fallback_for_an_open_one(names: NameServer, dialled: list[str]) -> None:
    """What happy eyeballs would do: on to the next address."""
    names.says(NAME, [OUTSIDE, INSIDE])
    async with street(names) as here:
        server = await asyncio.start_server(_closing(inner := Seen(ANSWER)), INSIDE, 0)
        port = server.sockets[0].getsockname()[1]
        answered = await here.client.request("POST", f"http://{NAME}:{port}/", body=b"", headers={}, timeout=30)
        server.close()

    assert not isinstance(answered, HttpAnswer)
    assert (dialled, inner.connections) == ([OUTSIDE], 0)


@pytest.mark.parametrize("inside", [INSIDE, "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"])
async def test_name_that_resolves_inside_is_refused(names: NameServer, dialled: list[str], inside: str) -> None:
    names.says(NAME, ["=metadata.internal", inside])
    async with street(names) as here:
        answered = await here.post()

    assert isinstance(answered, Forbidden)
    assert (dialled, here.inside.connections) == ([], 0)


async def test_look_up_address_that_turns_inside_is_not_asked(names: NameServer, dialled: list[str]) -> None:
    """The bearer secret would go with the question."""
    names.says(NAME, [INSIDE])
    async with street(names) as here:
        base = f"http://{NAME}:{here.port}"
        profile = HttpProfile(name="shop", url=f"{base}/", bearer="s3cret", look_up=f"{base}/by/{{token}}")
        found = await AskingEndpoint(profile, here.client).look_up(message_to(f"{base}/"), timeout=30)

    assert isinstance(found, NoAnswer)
    assert (found.code, dialled, here.inside.connections) == ("our_look_up", [], 0)


@pytest.mark.parametrize("head", ["Location: {}", "Refresh: 0; url={}", 'Alt-Svc: h2="{}"', "Link: <{}>; rel=next"])
@pytest.mark.parametrize("status", [301, 307, 308, 401, 421])
async def test_redirect_is_not_followed(names: NameServer, dialled: list[str], status: int, head: str) -> None:
    names.says(NAME, [OUTSIDE])
    async with street(names) as here:
        elsewhere = head.format(f"http://{INSIDE}:{here.port}/").encode()
        here.outside.answer = b"HTTP/1.1 %d Moved\r\n%b\r\nContent-Length: 0\r\n\r\n" % (status, elsewhere)
        answered = await here.post()

    assert isinstance(answered, HttpAnswer)
    assert (answered.status, dialled, here.inside.connections) == (status, [OUTSIDE], 0)
