"""Real brokers behind a proxy that gets a channel into each trouble at the moment when its message is on the way."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from tests.channels.troubles import (
    HOST,
    NO_SUCH_HOST,
    free_port,
    never_accepting,
    raw_server,
    reset,
    server_context,
)


@asynccontextmanager
async def place(trouble: str, port: int, marks: Sequence[bytes]) -> AsyncIterator[tuple[str, str]]:
    """The host and port that lead into this trouble with the broker on `port`; and an s where TLS is to be spoken.

    `marks` are bytes of which one is in every message, and in what is asked about it.
    """
    async with AsyncExitStack() as stack:
        match trouble:
            case "connection refused":
                yield f"{HOST}:{free_port()}", ""
            case "connect timeout":
                yield f"{HOST}:{await stack.enter_async_context(never_accepting())}", ""
            case "DNS error":
                yield f"{NO_SUCH_HOST}:{port}", ""
            case "TLS error":
                own = await stack.enter_async_context(raw_server(_greeted, context=server_context()))
                yield f"{HOST}:{own}", "s"
            case "reset before the request went out":
                yield f"{HOST}:{await stack.enter_async_context(raw_server(_reset_at_once))}", ""
            case _:
                yield f"{HOST}:{await stack.enter_async_context(between(port, trouble, marks))}", ""


@asynccontextmanager
async def between(port: int, trouble: str, marks: Sequence[bytes]) -> AsyncIterator[int]:
    """The port of a proxy that is none any more from the first marked bytes on."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, downstream = await asyncio.open_connection(HOST, port)
        met = asyncio.Event()
        back = asyncio.create_task(_carry_back(upstream, writer, met, trouble))
        try:
            while data := await reader.read(65_536):
                if any(mark in data for mark in marks):
                    met.set()
                    if trouble == "reset after the request went out":
                        reset(writer)
                        return
                downstream.write(data)
                await downstream.drain()
        finally:
            back.cancel()
            downstream.transport.abort()
            await asyncio.wait([back])

    async with raw_server(connected) as own:
        yield own


@asynccontextmanager
async def tls_front(port: int) -> AsyncIterator[int]:
    """The port of what speaks TLS, with a certificate of `authority()`, before a broker that does not."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, downstream = await asyncio.open_connection(HOST, port)
        back = asyncio.create_task(pass_on(upstream, writer))
        try:
            await pass_on(reader, downstream)
        finally:
            back.cancel()
            downstream.transport.abort()
            await asyncio.wait([back])

    async with raw_server(connected, context=server_context()) as own:
        yield own


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Write what is read, until there is no more."""
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _carry_back(
    upstream: asyncio.StreamReader, writer: asyncio.StreamWriter, met: asyncio.Event, trouble: str
) -> None:
    while data := await upstream.read(65_536):
        if met.is_set():
            match trouble:
                case "read timeout":
                    continue
                case "cut in the body of the answer":
                    writer.write(data[: len(data) // 2])
                    await writer.drain()
                case "malformed answer":
                    writer.write(b"\xff nonsense \r\n" * 10)
                    await writer.drain()
            writer.close()
            return
        writer.write(data)
        await writer.drain()
    writer.close()


async def _greeted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def _reset_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    reset(writer)
