"""A TCP proxy, in a thread of its own, that cuts connections, silences them, and swallows the answers to COMMITs."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Self, TypeVar, cast

import uvloop

from tests.processes import SECONDS

_RESET = struct.pack("ii", 1, 0)
COMMIT = b"COMMIT"
Answer = TypeVar("Answer")


class Proxy:
    """Listens on loopback and forwards to one address. Every method may be called from any thread.

    `cuts` counts the connections that it has reset.
    """

    def __init__(self, host: str, port: int) -> None:
        self.host, self.to_port = host, port
        self.port = 0
        self.cuts = 0
        self.is_silent = False
        self.to_doom, self.doomed_by = 0, COMMIT
        self.pairs: set[Pair] = set()
        self._loop = uvloop.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready: Future[None] = Future()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.result(timeout=SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(timeout=SECONDS)

    def cut(self) -> int:
        """Reset every connection, on both sides; how many there were."""
        return self._call(lambda: sum(pair.cut() for pair in list(self.pairs)))

    def silence(self) -> None:
        """From now on no byte passes in either direction, on connections that are there and on new ones."""
        self._call(lambda: self._set_silent(True))

    def speak(self, *, forget: bool) -> None:
        """Bytes pass again: also those that were held back, or those are lost and their connections reset."""

        def speak() -> None:
            self._set_silent(False)
            for pair in list(self.pairs):
                if forget:
                    pair.cut()
                else:
                    pair.flush()

        self._call(speak)

    def cut_answers(self, amount: int, to: bytes = COMMIT) -> None:
        """Let the next so many requests with these bytes in them pass, and reset their connections when the server
        has answered: it has done what it was asked to, and nobody is told."""

        def doom() -> None:
            self.to_doom, self.doomed_by = amount, to

        self._call(doom)

    def _set_silent(self, is_silent: bool) -> None:
        self.is_silent = is_silent

    def _call(self, work: Callable[[], Answer]) -> Answer:
        done: Future[Answer] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(timeout=SECONDS)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0), backlog=500)
        self.port = listening.getsockname()[1]
        server = await self._loop.create_server(lambda: Client(self), sock=listening)
        self._ready.set_result(None)
        await self._ended.wait()
        server.close()
        for pair in list(self.pairs):
            pair.cut()
        await asyncio.sleep(0)


class Pair:
    """A client's connection and ours to the server. What cannot go on yet is held."""

    def __init__(self, proxy: Proxy, client: asyncio.Transport) -> None:
        self._proxy = proxy
        self._client: asyncio.Transport | None = client
        self._server: asyncio.Transport | None = None
        self._to_server = bytearray()
        self._to_client = bytearray()
        self._is_doomed = False
        proxy.pairs.add(self)

    async def dial(self) -> None:
        proxy = self._proxy
        try:
            await asyncio.get_running_loop().create_connection(lambda: ServerSide(self), proxy.host, proxy.to_port)
        except OSError:
            self.cut()

    def connected(self, server: asyncio.Transport) -> None:
        self._server = server
        if self._client is None:
            server.abort()
        self.flush()

    def from_client(self, data: bytes) -> None:
        if self._proxy.to_doom and self._proxy.doomed_by in data:
            self._proxy.to_doom -= 1
            self._is_doomed = True
        self._to_server += data
        self.flush()

    def from_server(self, data: bytes) -> None:
        if self._is_doomed:
            self.cut()
            return
        self._to_client += data
        self.flush()

    def flush(self) -> None:
        """Pass on what may pass."""
        if self._proxy.is_silent:
            return
        for held, transport in ((self._to_server, self._server), (self._to_client, self._client)):
            if held and transport is not None and not transport.is_closing():
                transport.write(bytes(held))
                held.clear()

    def hung_up(self) -> None:
        """One side has ended it: so does the other, when it has got what was meant for it."""
        self.flush()
        self._leave(lambda transport: transport.close())

    def cut(self) -> int:
        """End both sides with a reset; 1 if it was still there."""
        was_there = self in self._proxy.pairs
        self._proxy.cuts += was_there
        self._leave(_reset)
        return was_there

    def _leave(self, end: Callable[[asyncio.Transport], None]) -> None:
        self._proxy.pairs.discard(self)
        for transport in (self._client, self._server):
            if transport is not None:
                end(transport)
        self._client = self._server = None


class Client(asyncio.Protocol):
    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pair = Pair(self._proxy, cast(asyncio.Transport, transport))
        self._dialling = asyncio.ensure_future(self._pair.dial())

    def data_received(self, data: bytes) -> None:
        self._pair.from_client(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._pair.hung_up()


class ServerSide(asyncio.Protocol):
    def __init__(self, pair: Pair) -> None:
        self._pair = pair

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pair.connected(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self._pair.from_server(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._pair.hung_up()


def _reset(transport: asyncio.Transport) -> None:
    """Close it so that the other side gets a reset and not an end."""
    if not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()
