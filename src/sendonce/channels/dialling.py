"""Connections to vetted addresses only: vetted when a name is looked up, and again when an address is dialled."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import AddrInfoType

from sendonce.channels.guard import ForbiddenAddress, Guard, is_a_number

# Below what servers commonly keep an idle connection open for (5 s): one they are just closing would leave us in doubt.
KEEP_ALIVE_SECONDS = 4.0
NAMES_SECONDS = 30
_LOOK_UPS = 32


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

    async def close(self, *, abort_ssl: bool = False) -> None:
        await self._names.close()
        await super().close(abort_ssl=abort_ssl)
