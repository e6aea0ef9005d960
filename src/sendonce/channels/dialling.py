"""Connections to vetted addresses only: vetted when a name is looked up, and again when an address is dialled."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import AddrInfoType
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader

from sendonce.channels.guard import ForbiddenAddress, Guard, is_a_number

# Below what servers commonly keep an idle connection open for (5 s): one they are just closing would leave us in doubt.
KEEP_ALIVE_SECONDS = 4.0
NAMES_SECONDS = 30
_LOOK_UPS = 32
MOST_INTERIM_ANSWERS = 20


class Resolver(AbstractResolver):
    """The system's own look-ups, in threads of their own: a name server that hangs holds up nothing else."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._threads = ThreadPoolExecutor(_LOOK_UPS, thread_name_prefix="sendonce-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses that may be dialled; ForbiddenAddress when there are others only."""
        if is_a_number(host):
            raise ForbiddenAddress("its host is a number; write a name or a plain IP address")
        found = await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port, family)
        vetted = [each for each in found if self._guard.allows(each["host"])]
        if found and not vetted:
            self._guard.check(found[0]["host"])
        return vetted

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except UnicodeError:
        raise OSError("not a host name") from None
    return [
        ResolveResult(
            hostname=host,
            host=str(address[0]),
            port=port,
            family=kind,
            proto=proto,
            flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
        )
        for kind, _, proto, _, address in found
    ]


class _Impatient(ResponseHandler):
    """Hangs up on a receiver that says 100 Continue, or the like, without an end: each would be kept in memory."""

    _interim = 0

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        self._interim = self._interim + 1 if 100 <= data[0].code < 200 else 0
        if self._interim <= MOST_INTERIM_ANSWERS:
            super().feed_data(data, size)
        elif self.transport is not None:
            self.transport.abort()
            self.set_exception(HttpProcessingError(message="too many interim answers"))


class GuardedConnector(aiohttp.TCPConnector):
    """A pool of connections that were all vetted when they were dialled. How many is for the sender's slots to say."""

    def __init__(self, guard: Guard) -> None:
        self._names = Resolver(guard)

        def vetted_socket(address: AddrInfoType) -> socket.socket:
            family, kind, proto, _, place = address
            guard.check(str(place[0]))
            return socket.socket(family, kind, proto)

        super().__init__(
            limit=0,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            ttl_dns_cache=NAMES_SECONDS,
            resolver=self._names,
            socket_factory=vetted_socket,
        )
        # The connector has no parameter for it; test_hostile_answers notices should the name be another one.
        self._factory = partial(self._impatient)

    def _impatient(self) -> ResponseHandler:
        return _Impatient(self._loop)

    async def close(self, *, abort_ssl: bool = False) -> None:
        await self._names.close()
        await super().close(abort_ssl=abort_ssl)
