"""Connections to vetted addresses only: vetted when a name is looked up, and again when an address is dialled."""

import socket
from collections.abc import Sequence
from contextvars import ContextVar
from functools import partial

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import AddrInfoType
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader

from sendonce.channels.guard import LEADS_NOWHERE, ForbiddenAddress, ForbiddenName, Guard, is_a_number
from sendonce.channels.names import Names

# Below what servers commonly keep an idle connection open for (5 s): one they are just closing would leave us in doubt.
KEEP_ALIVE_SECONDS = 4.0
MOST_INTERIM_ANSWERS = 20
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


# Whose send it is that connects. None: our own, to an address of the settings.
sender_of: ContextVar[str | None] = ContextVar("sender_of", default=None)


class Resolver(AbstractResolver):
    """Looks up a name for whoever sends, and gives only the addresses that may be dialled."""

    def __init__(self, guard: Guard, names: Names) -> None:
        self._guard = guard
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses that may be dialled; ForbiddenAddress when there are others only."""
        if is_a_number(host):
            raise ForbiddenAddress("its host is a number; write a name or a plain IP address")
        found = await self._names.of(host, sender_of.get())
        vetted = [each for each in found if self._guard.allows(each.host)]
        if not vetted:
            raise ForbiddenName(LEADS_NOWHERE)
        return [
            ResolveResult(hostname=host, host=each.host, port=port, family=each.family, proto=0, flags=_NUMERIC)
            for each in vetted
            if family in (socket.AF_UNSPEC, each.family)
        ]

    async def close(self) -> None:
        await self._names.close()


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

    def __init__(self, guard: Guard, name_servers: Sequence[str] = ()) -> None:
        self._names = Resolver(guard, Names(name_servers))

        def vetted_socket(address: AddrInfoType) -> socket.socket:
            family, kind, proto, _, place = address
            guard.check(str(place[0]))
            return socket.socket(family, kind, proto)

        super().__init__(
            limit=0,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            use_dns_cache=False,
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
