"""The HTTP client: what it knows when no answer comes, and that it never sends twice."""

import asyncio
import errno
import gc
import os
import resource
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import aiohttp
import pytest
import pytest_asyncio

from sendonce.channels.http.answers import outcome_of
from sendonce.channels.http.client import HttpAnswer, HttpClient, Lost, NotSent, Ours
from sendonce.channels.http.guard import Guard
from sendonce.domain.outcomes import Deferred, Fault, Outcome, fault_of
from tests.channels.mail_servers import channel_to, mail_message
from tests.channels.sending import Seen
from tests.channels.troubles import (
    HOST,
    authority,
    free_port,
    never_accepting,
    raw_server,
    read_request,
    reset,
    running_out,
    server_context,
    silent,
)
from tests.processes import until_async

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest_asyncio.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient(Guard.parse("127.0.0.0/8"))
    yield client
    await client.close()


async def post(client: HttpClient, port: int, *, body: bytes = b"{}", timeout: float = 30, **more: object) -> object:
    url = f"http://{HOST}:{port}/"
    return await client.request("POST", url, body=body, headers={}, timeout=timeout, **more)  # type: ignore[arg-type]


class TestConnectionsKeptOpen:
    async def test_connection_serves_many_requests(self, client: HttpClient) -> None:
        seen = Seen(OK)
        async with raw_server(seen.connected) as port:
            answers = [await post(client, port) for _ in range(5)]

        assert all(isinstance(answer, HttpAnswer) and answer.text == "ok" for answer in answers)
        assert seen.connections == 1

    async def test_post_on_a_connection_that_breaks_is_not_sent_again(self, client: HttpClient) -> None:
        """The server takes the second request and drops it: a silent retry would make it three."""
        requests: list[bytes] = []

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            requests.append(await read_request(reader))
            writer.write(OK)
            requests.append(await read_request(reader))
            writer.close()

        async with raw_server(connected) as port:
            first, second = await post(client, port), await post(client, port)

        assert isinstance(first, HttpAnswer)
        assert second == Lost("connection_lost", "the connection broke before an answer came")
        assert len(requests) == 2

    @pytest.mark.parametrize("body", [b"", b"{}", b"x" * 3_000_000])
    async def test_connection_that_is_found_broken_when_writing_took_nothing(
        self, client: HttpClient, body: bytes
    ) -> None:
        """The server resets the kept connection; the loop is not told before the next request is written to it."""
        requests: list[bytes] = []
        writers: list[asyncio.StreamWriter] = []

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            while True:
                requests.append(await read_request(reader))
                writer.write(OK)

        async with raw_server(connected) as port:
            assert isinstance(await post(client, port), HttpAnswer)
            reset(writers[0])
            await asyncio.sleep(0)  # their loop's turn, which sends the RST; ours looks at its sockets only afterwards
            answered = await post(client, port, body=body)

        assert answered == NotSent("connection_lost", "the connection broke before an answer came")
        assert len(requests) == 1
        assert len(writers) == 1


class TestTimeouts:
    async def test_whole_time_is_kept(self, client: HttpClient) -> None:
        meant = Lost("read_timeout", "no answer came in time")
        async with raw_server(silent) as port:
            assert meant == await running_out(lambda s: post(client, port, timeout=s), lambda said: said == meant)

    async def test_connect_timeout_ends_before_the_whole_timeout(self, client: HttpClient) -> None:
        meant = NotSent("connect_timeout", "no connection came about in time")
        async with never_accepting() as port:
            assert meant == await running_out(lambda s: post(client, port, timeout=s), lambda said: said == meant)

    async def test_body_that_drips_does_not_take_longer(self, client: HttpClient) -> None:
        """The status is known: what has come of the body is kept."""

        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nslow")
            await silent(reader, writer)

        async with raw_server(drip) as port:
            answered = await running_out(
                lambda s: post(client, port, timeout=s), lambda said: isinstance(said, HttpAnswer) and said.text != ""
            )

        assert isinstance(answered, HttpAnswer)
        assert (answered.status, answered.text) == (500, "slow")

    async def test_body_too_large_to_write_at_once_that_nobody_reads_is_lost(self, client: HttpClient) -> None:
        stop = asyncio.Event()

        async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await stop.wait()

        async with raw_server(deaf) as port:
            answered = await running_out(
                lambda s: post(client, port, body=b"x" * 30_000_000, timeout=s), lambda said: isinstance(said, Lost)
            )

        assert isinstance(answered, Lost)


class TestAnswers:
    async def test_body_is_read_up_to_the_cap_in_as_many_parts_as_it_comes(self, client: HttpClient) -> None:
        async def in_parts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n")
            for _ in range(30):
                writer.write(b"x" * 100)
                await writer.drain()
                await asyncio.sleep(0)
            await silent(reader, writer)

        async with raw_server(in_parts) as port:
            short, long = await post(client, port), await post(client, port, cap=5000)

        assert isinstance(short, HttpAnswer)
        assert isinstance(long, HttpAnswer)
        assert (len(short.text), len(long.text)) == (2000, 3000)

    async def test_answer_that_comes_before_the_body_is_written_counts(self, client: HttpClient) -> None:
        async def too_large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            await reader.read()

        async with raw_server(too_large) as port:
            answered = await post(client, port, body=b"x" * 30_000_000)

        assert isinstance(answered, HttpAnswer)
        assert answered.status == 413

    async def test_response_that_is_compressed_is_not_unpacked(self, client: HttpClient) -> None:
        seen = Seen(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nbomb")
        async with raw_server(seen.connected) as port:
            answered = await post(client, port)

        assert isinstance(answered, HttpAnswer)
        assert answered.text == "bomb"

    async def test_cookie_is_not_carried_to_the_next_request(self, client: HttpClient) -> None:
        seen = Seen(b"HTTP/1.1 200 OK\r\nSet-Cookie: session=1; Path=/\r\nContent-Length: 0\r\n\r\n")
        async with raw_server(seen.connected) as port:
            for _ in range(2):
                await client.request("POST", f"http://localhost:{port}/", body=b"", headers={}, timeout=30)

        assert len(seen.requests) == 2
        assert b"cookie" not in seen.requests[1].lower()

    @pytest.mark.parametrize(
        "answer",
        [b"HTTP/1.1 abc Nonsense\r\n\r\n", b"HTTP/9.9\r\n\r\n", b"\x00\x01\x02\x03\r\n\r\n", b"HTTP/1.1 200 OK\r\nA"],
    )
    async def test_response_that_is_not_http_is_lost(self, client: HttpClient, answer: bytes) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(answer)
            writer.close()

        async with raw_server(connected) as port:
            assert isinstance(await post(client, port), Lost)


class TestTls:
    async def test_server_that_wants_our_certificate_and_gets_none_leaves_us_in_doubt(self, client: HttpClient) -> None:
        """With TLS 1.3 it says no when we have already written: it cannot be told from a reset."""
        demanding = server_context()
        demanding.verify_mode = ssl.CERT_REQUIRED
        authority().configure_trust(demanding)
        trusting = ssl.create_default_context()
        authority().configure_trust(trusting)
        seen = Seen(OK)
        async with raw_server(seen.connected, context=demanding) as port:
            answered = await client.request(
                "POST", f"https://{HOST}:{port}/", body=b"{}", headers={}, timeout=30, ssl=trusting
            )

        assert isinstance(answered, Lost)
        assert not seen.requests


async def test_client_may_be_closed_twice_or_unopened() -> None:
    client = HttpClient(Guard.parse("127.0.0.0/8"))
    await client.close()
    async with raw_server(Seen(OK).connected) as port:
        await post(client, port)
        await client.close()
        await client.close()
        assert isinstance(await post(client, port), HttpAnswer)
    await client.close()
    gc.collect()


async def test_connections_are_closed_with_the_client(client: HttpClient) -> None:
    ended: list[bool] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await reader.read()
        ended.append(True)
        writer.close()

    async with raw_server(connected) as port:
        await post(client, port)
        assert not ended
        await client.close()
        await until_async(lambda: ended, "the connection to end")


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """This process can open nothing more, for as long as this lasts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_worker_without_descriptors_charges_nobody_for_it(client: HttpClient) -> None:
    """By address; by a name of the hosts file; and by mail."""
    async with channel_to(free_port()) as mails, raw_server(Seen(OK).connected) as port:
        await client.request("GET", f"http://localhost:{port}/", headers={}, timeout=30)
        with no_descriptor_left():
            answers = [await post(client, free) for free in (1, 2)]
            named = await client.request("POST", "http://localhost:1/", body=b"", headers={}, timeout=30)
            mailed = await mails.send(mail_message(), timeout=30)

    for answered in (*answers, named):
        assert isinstance(answered, Ours)
        assert _told(outcome_of(answered)) == (Deferred, "our_server", Fault.OURS)
    assert _told(mailed) == (Deferred, "our_server", Fault.OURS)


def _told(outcome: Outcome) -> tuple[object, object, object]:
    return type(outcome), getattr(outcome, "code", None), fault_of(outcome)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL])
async def test_shortage_of_this_machine_is_our_fault(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    async def lacking(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", lacking)

    answered = await post(client, 1)

    assert isinstance(answered, Ours)
    assert os.strerror(number) in answered.message


async def test_request_that_may_have_gone_out_is_lost_on_any_shortage(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        arrived.set()
        await reader.read()
        writer.close()

    async def lacking(*args: object) -> None:
        await arrived.wait()
        raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))

    monkeypatch.setattr(aiohttp.ClientResponse, "start", lacking)
    async with raw_server(connected) as port:
        answered = await post(client, port)

    assert isinstance(answered, Lost)
    assert answered.code == "connection_lost"
