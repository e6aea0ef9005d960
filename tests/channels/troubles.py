"""Servers that misbehave, on loopback and free ports: one for each way in which a send can fail."""

import asyncio
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from functools import lru_cache
from typing import TypeVar

import trustme

Answer = TypeVar("Answer")
Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HOST = "127.0.0.1"
NO_SUCH_HOST = "nowhere.invalid"


SHORT_SECONDS = (0.5, 5.0, 25.0)


async def running_out(ask: Callable[[float], Awaitable[Answer]], is_there: Callable[[Answer], bool]) -> Answer:
    """What comes of it when its time runs out there, and not, on a busy machine, on the way there: then it has more."""
    *short, last = SHORT_SECONDS
    for seconds in short:
        if is_there(answer := await ask(seconds)):
            return answer
    return await ask(last)


def free_port() -> int:
    """A port on which nobody listens."""
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def raw_server(connected: Connected, *, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that does to a connection what it is told, and nothing of its own; its port."""
    open_ones: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_ones[task] = writer
        with suppress(asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
            await connected(reader, writer)

    server = await asyncio.start_server(noted, HOST, 0, ssl=context)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task, writer in open_ones.items():
            task.cancel()
            writer.transport.abort()
        for task, writer in open_ones.items():
            await asyncio.wait([task])
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def never_accepting() -> AsyncIterator[int]:
    """A port where connecting never ends: it listens, but its queue is full."""
    with closing(socket.socket()) as listener:
        listener.bind((HOST, 0))
        listener.listen(0)
        waiting = []
        try:
            for _ in range(3):
                one = socket.socket()
                one.setblocking(False)
                waiting.append(one)
                one.connect_ex(listener.getsockname())
            yield int(listener.getsockname()[1])
        finally:
            for one in waiting:
                one.close()


@lru_cache
def authority() -> trustme.CA:
    """Whom nobody trusts who was not told to."""
    return trustme.CA()


def server_context() -> ssl.SSLContext:
    """A server's side of TLS, with a certificate of `authority()` for this host."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(HOST, "localhost").configure_cert(context)
    return context


def reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection with a RST."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def reset_at_first_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """With TLS this is in the middle of the handshake: before anything of a message can have gone out."""
    await reader.read(1)
    reset(writer)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Listens and never answers."""
    await reader.read()
    writer.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """One HTTP request, head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return head + await reader.readexactly(int(length[1]) if length else 0)


def after_a_request(answer: bytes, *, then: Callable[[asyncio.StreamWriter], None]) -> Connected:
    """Takes a whole HTTP request, answers with these bytes, and does that to the connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        if answer:
            writer.write(answer)
            await writer.drain()
        then(writer)

    return connected


def hang_up(writer: asyncio.StreamWriter) -> None:
    """End the connection in good order."""
    writer.close()


HALF_AN_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nthe begin"
NOT_HTTP = b"220 mail.example.com ESMTP\r\n"
