"""A pooler in transaction mode, as PgBouncer is one: between two transactions a client keeps nothing.

Clients are many, connections to the server few. A client has one of them from its first message until the server
says that it is outside a transaction; then the next one who asks gets it. They are handed out in turn, so that of two
transactions of one client the second is never where the first was: named statements and settings of a session are lost.
"""

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, Self
from urllib.parse import urlsplit

_PROTOCOL_3 = 196608
_CANCEL = 80877102
_ENCRYPTION = (80877103, 80877104)
_ROUND_TRIPS = (b"Q", b"S")  # a simple query, and the sync that ends extended ones: each is answered by "ready"
_READY = b"Z"
_KEY = b"K"
# What PgBouncer lets a client choose for itself; anything else is refused.
_ALLOWED = {"user", "database", "application_name", "client_encoding", "datestyle", "timezone"}


class Message(NamedTuple):
    kind: bytes
    body: bytes

    def encode(self) -> bytes:
        return self.kind + struct.pack("!i", len(self.body) + 4) + self.body


class Wire(NamedTuple):
    """One end of a connection that speaks the protocol."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self) -> Message:
        kind, length = struct.unpack("!ci", await self.reader.readexactly(5))
        return Message(kind, await self.reader.readexactly(length - 4))

    async def receive_startup(self) -> tuple[int, bytes]:
        (length,) = struct.unpack("!i", await self.reader.readexactly(4))
        body = await self.reader.readexactly(length - 4)
        return struct.unpack("!i", body[:4])[0], body[4:]

    def send(self, message: Message) -> None:
        self.writer.write(message.encode())

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


class Pooler:
    """Listens on a port of its own, for one database."""

    def __init__(self, server: str) -> None:
        parts = urlsplit(server)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._login = {"user": parts.username or "postgres", "database": parts.path.lstrip("/")}
        self._free: asyncio.Queue[Wire] = asyncio.Queue()
        self._greeting: list[Message] = []
        self._clients: set[asyncio.Task[None]] = set()
        self.port = 0
        self.transactions = 0

    @property
    def url(self) -> str:
        return f"postgresql://{self._login['user']}@127.0.0.1:{self.port}/{self._login['database']}"

    @asynccontextmanager
    async def run(self, size: int) -> AsyncIterator[Self]:
        for _ in range(size):
            self._free.put_nowait(await self._connect())
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listener.close()
            for client in self._clients:
                client.cancel()
            await asyncio.gather(*self._clients, return_exceptions=True)
            while not self._free.empty():
                await self._free.get_nowait().close()

    async def _connect(self) -> Wire:
        wire = Wire(*await asyncio.open_connection(*self._address))
        wire.writer.write(_startup(self._login))
        self._greeting = []
        while (message := await wire.receive()).kind != _READY:
            assert message.kind != b"E", message.body
            # A key to cancel by is each client's own: the server's would cancel what somebody else is doing there.
            self._greeting.append(Message(_KEY, os.urandom(8)) if message.kind == _KEY else message)
        return wire

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        client = Wire(reader, writer)
        try:
            if await self._welcome(client):
                await self._serve(client)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            self._clients.discard(task)
            await client.close()

    async def _welcome(self, client: Wire) -> bool:
        while (start := await client.receive_startup())[0] in _ENCRYPTION:
            client.writer.write(b"N")
        if start[0] == _CANCEL:
            return False
        words = [word.decode() for word in start[1].split(b"\0")]
        wanted = {name.lower() for name in words[::2] if name}
        if refused := wanted - _ALLOWED:
            text = f"unsupported startup parameter: {', '.join(sorted(refused))}"
            client.send(Message(b"E", f"SFATAL\0VFATAL\0C08P01\0M{text}\0\0".encode()))
            await client.writer.drain()
            return False
        for message in self._greeting:
            client.send(message)
        client.send(Message(_READY, b"I"))
        return True

    async def _serve(self, client: Wire) -> None:
        """One transaction after the other, each where there is room for it."""
        while (message := await client.receive()).kind != b"X":
            server = await self._free.get()
            try:
                await self._transaction(client, server, message)
            except BaseException:
                # Left in the middle of a transaction: that connection is of no use to anybody else.
                await server.close()
                self._free.put_nowait(await self._connect())
                raise
            self.transactions += 1
            self._free.put_nowait(server)

    async def _transaction(self, client: Wire, server: Wire, message: Message) -> None:
        while True:
            server.send(message)
            if message.kind in _ROUND_TRIPS and await self._answer(client, server) == b"I":
                return
            message = await client.receive()
            if message.kind == b"X":
                raise ConnectionError("the client has gone in the middle of a transaction")

    async def _answer(self, client: Wire, server: Wire) -> bytes:
        """Pass on what the server says until it is ready again; whether it is in a transaction."""
        while True:
            message = await server.receive()
            client.send(message)
            if message.kind == _READY:
                await client.writer.drain()
                return message.body


def _startup(parameters: Mapping[str, str]) -> bytes:
    words = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items())
    body = struct.pack("!i", _PROTOCOL_3) + words + b"\0"
    return struct.pack("!i", len(body) + 4) + body
